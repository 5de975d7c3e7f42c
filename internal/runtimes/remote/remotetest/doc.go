// Package remotetest has a driver for tests alone. Its places are directories of this machine, its
// programs are local processes, and its network can be slow, break connections and be down.
package remotetest
