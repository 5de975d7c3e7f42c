//go:build linux && !amd64 && !arm64

package process

// inputCalls is empty on architectures whose system call numbers are not listed here.
var inputCalls map[uint64]inputCall
