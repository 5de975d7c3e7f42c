package process

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// TrimProgram releases the memory of the program's own file. Most of it was needed only at the
// start, such as tables and the embedded programs; the kernel reads the rest again from the file
// when it is needed. No data is lost, because only read-only mappings are released.
func TrimProgram() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range bytes.Lines(maps) {
		// 00400000-00da9000 r-xp 00000000 fe:00 10002836    /usr/bin/trl
		f := bytes.Fields(line)
		if len(f) < 6 || string(f[5]) != self || f[1][1] == 'w' || f[1][3] != 'p' {
			continue
		}
		from, to, _ := bytes.Cut(f[0], []byte("-"))
		start, err := strconv.ParseUint(string(from), 16, 64)
		if err != nil {
			continue
		}
		end, err := strconv.ParseUint(string(to), 16, 64)
		if err == nil && end > start {
			// The address is that of a mapping, not of a Go object.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
		}
	}
}
