// Package terminal tests terminals and programs end to end: a real daemon, real runners,
// real pseudo-terminals, over the socket.
package terminal
