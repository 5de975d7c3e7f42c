// Package security holds the tests of what others may see and do: secrets, file
// modes, other users, the socket. They look at the machine through /proc and run on
// Linux only.
package security
