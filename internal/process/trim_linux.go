package process

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// TrimProgram gives back the pages of the program's own file that are in memory: most of
// them only the start needed, such as tables and the programs that are packed into it.
// What is needed again comes back from the file. Nothing is lost: only mappings that
// cannot be written to are touched.
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
			// The address is that of a mapping, not of an object of Go.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
		}
	}
}
