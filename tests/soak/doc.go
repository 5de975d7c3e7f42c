// Package soak holds the long tests of the whole: what is left after thousands of
// commands, what happens when a part is killed, how much a flood costs. They look
// at the machine through /proc and run on Linux only.
package soak
