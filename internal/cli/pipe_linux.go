package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// widen makes room in a pipe for a whole chunk, so that fewer reads, each with a call to the
// daemon, take in the same. It does nothing to other files, or where the system refuses.
func widen(f *os.File) {
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, inputChunk)
}
