package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

// writeAndClose writes all of queue to a pipe and closes it. Where the Go runtime can watch the
// pipe, a slow reader does not block a thread.
func writeAndClose(w int, queue [][]byte) {
	unix.SetNonblock(w, watchesPipes)
	f := os.NewFile(uintptr(w), "stdin")
	defer f.Close()
	for _, data := range queue {
		if _, err := f.Write(data); err != nil {
			return // EPIPE: the pipe has no reader
		}
	}
}
