//go:build linux && !amd64 && !arm64

package process

// inputCalls is empty where the numbers of the system calls are not known.
var inputCalls map[uint64]inputCall
