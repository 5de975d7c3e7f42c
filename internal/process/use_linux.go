package process

import (
	"bytes"
	"os"
)

// OwnMemory returns how many bytes of memory this process alone has, without the pages of its program.
func OwnMemory() int64 {
	var buf [128]byte
	n, err := readFile("/proc/self/statm", buf[:])
	if err != nil {
		return 0
	}
	f := bytes.Fields(buf[:n])
	if len(f) < 3 {
		return 0
	}
	resident, _ := parseUint(f[1])
	shared, _ := parseUint(f[2])
	return int64(resident-shared) * int64(os.Getpagesize())
}

// UseOf reads the memory and the disk traffic of a process. What it may not read is 0.
func UseOf(pid int) (u Use) {
	var buf [1024]byte
	if n, err := readFile(procPath(pid, "statm"), buf[:]); err == nil {
		if f := bytes.Fields(buf[:n]); len(f) > 1 {
			pages, _ := parseUint(f[1])
			u.RSSBytes = int64(pages) * int64(os.Getpagesize())
		}
	}
	if n, err := readFile(procPath(pid, "io"), buf[:]); err == nil {
		for line := range bytes.Lines(buf[:n]) {
			name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
			count, _ := parseUint(value)
			switch string(name) {
			case "read_bytes":
				u.ReadBytes = int64(count)
			case "write_bytes":
				u.WrittenBytes = int64(count)
			}
		}
	}
	return u
}
