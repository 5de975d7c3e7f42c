// Package remote is what all runtimes have in common whose places are elsewhere: in a container,
// on another machine, in a pod. A Driver says how a place is made, how a file gets there and how a
// program is started there. Everything else is done here, once: the runner is brought to the place
// and started, connections to it are made again when they break, and nothing is left behind.
package remote
