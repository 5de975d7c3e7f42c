package daemon

import (
	"os"
	"strconv"
	"strings"
)

// freeMemory returns the bytes that the kernel could give to new processes without swapping.
func freeMemory() (int64, bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10, err == nil
		}
	}
	return 0, false
}

// freeProcesses returns how many more processes and threads the kernel allows.
func freeProcesses() (int64, bool) {
	most := int64(0)
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		text, _ := os.ReadFile(file)
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && (most == 0 || n < most) {
			most = n
		}
	}
	// 0.20 0.18 0.12 1/80 11206: one of 80 processes and threads runs
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 4 || most == 0 {
		return 0, false
	}
	_, total, _ := strings.Cut(fields[3], "/")
	n, err := strconv.ParseInt(total, 10, 64)
	return most - n, err == nil
}
