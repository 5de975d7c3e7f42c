package trltest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// carriers returns the processes with one of the marks in their environment.
func carriers(marks map[string]bool) []process {
	var list []process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue // gone, or not ours
		}
		for kv := range bytes.SplitSeq(env, []byte{0}) {
			if marks[string(kv)] {
				args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
				text := strings.ReplaceAll(strings.TrimRight(string(args), "\x00"), "\x00", " ")
				list = append(list, process{pid: pid, text: text})
				break
			}
		}
	}
	return list
}

// gone waits that long for the process to end.
func gone(pid int, wait time.Duration) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err == unix.ESRCH
	}
	defer unix.Close(fd)
	ms := int(max(wait, 0).Milliseconds())
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, ms)
		if err != unix.EINTR {
			return n > 0
		}
	}
}
