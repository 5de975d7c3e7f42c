package process

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tickMS is the length of a clock tick in /proc. USER_HZ is 100 on every architecture that Go
// supports, independently of the kernel's own clock.
const tickMS = 10

// manyThreads means that the number of threads is unknown.
const manyThreads = 0

// Stat returns the Info of a process. It returns false if there is no process with that id.
//
// The kernel reports a process whose main thread has ended as a zombie, even if other threads
// still run. Stat reports it as sleeping, because it is alive.
func Stat(pid int) (Info, bool) {
	info, _, ok := stat(pid)
	return info, ok
}

func stat(pid int) (info Info, threads int, ok bool) {
	var buf [1024]byte
	n, err := readFile(procPath(pid, "stat"), buf[:])
	if err != nil {
		return Info{}, 0, false
	}
	info, threads, ok = parseStat(buf[:n])
	if ok && info.State == 'Z' && threads > 1 {
		info.State = 'S'
	}
	return info, threads, ok
}

// parseStat parses a line of /proc/PID/stat, see proc(5). The name is in parentheses and may itself
// contain parentheses, spaces and newlines, so it ends at the last closing parenthesis.
func parseStat(line []byte) (info Info, threads int, ok bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return Info{}, 0, false
	}
	pid, ok := parseUint(bytes.TrimSpace(line[:open]))
	if !ok {
		return Info{}, 0, false
	}
	info.PID, info.Name = int(pid), string(line[open+1:end])

	rest := line[end+1:]
	// Field 3 is the state; the others that are used are numbers.
	for field := 3; field <= 22; field++ {
		var word []byte
		word, rest = nextWord(rest)
		if field == 3 {
			if len(word) != 1 || word[0]|0x20 < 'a' || word[0]|0x20 > 'z' {
				return Info{}, 0, false
			}
			info.State = word[0]
			continue
		}
		switch field {
		case 4, 5, 6, 14, 15, 16, 17, 20, 22:
		default:
			continue
		}
		v, ok := parseUint(word)
		if !ok {
			return Info{}, 0, false
		}
		switch field {
		case 4:
			info.PPID = int(v)
		case 5:
			info.PGID = int(v)
		case 6:
			info.SID = int(v)
		case 14, 16: // its own, and that of the children it has waited for
			info.UserMS += int64(v) * tickMS
		case 15, 17:
			info.SystemMS += int64(v) * tickMS
		case 20:
			threads = int(v)
		case 22:
			info.StartTime = v
		}
	}
	return info, threads, true
}

func nextWord(b []byte) (word, rest []byte) {
	b = bytes.TrimLeft(b, " \n")
	end := bytes.IndexAny(b, " \n")
	if end < 0 {
		end = len(b)
	}
	return b[:end], b[end:]
}

// parseUint is strconv.ParseUint for bytes. A negative number becomes 0: cutime and cstime are
// signed in the kernel, although they cannot be negative.
func parseUint(b []byte) (v uint64, ok bool) {
	negative := len(b) > 1 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 { // 18 digits fit into an int64, and no used field has more
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	if negative {
		v = 0
	}
	return v, true
}

// Turns returns how often the main thread of a process has begun to run on a processor, and for how
// long it has run. Two equal numbers of turns mean that the process has not run in between. Turns
// returns false if the kernel does not count them (CONFIG_SCHED_INFO), or if there is no such process.
func Turns(pid int) (turns uint64, used time.Duration, ok bool) {
	var buf [128]byte
	n, err := readFile(procPath(pid, "schedstat"), buf[:])
	if err != nil {
		return 0, 0, false
	}
	first, rest := nextWord(buf[:n])
	_, rest = nextWord(rest) // the time spent waiting for a processor
	third, _ := nextWord(rest)
	ns, _ := parseUint(first)
	turns, _ = parseUint(third)
	return turns, time.Duration(ns), turns > 0 // a process that has never run cannot be seen
}

func arguments(pid int) []byte {
	// Twice the limit is enough: commandText can shorten a character to half its bytes.
	buf := make([]byte, 2*maxCommandLine)
	n, err := readFile(procPath(pid, "cmdline"), buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// HighWaterRSS returns the largest resident size that the process has had, in bytes; 0 if it is
// unknown.
func HighWaterRSS(pid int) int64 {
	value := statusField(pid, "VmHWM:")
	kib, ok := parseUint(bytes.TrimSpace(bytes.TrimSuffix(value, []byte("kB"))))
	if !ok {
		return 0
	}
	return int64(kib) * 1024
}

// statusField returns the value of one line of /proc/PID/status.
func statusField(pid int, key string) []byte {
	buf := make([]byte, 4096)
	n, err := readFile(procPath(pid, "status"), buf)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(buf[:n]) {
		if value, ok := bytes.CutPrefix(line, []byte(key)); ok {
			return bytes.TrimSpace(value)
		}
	}
	return nil
}

// BootID identifies the current run of the machine, within which start times are comparable.
func BootID() string {
	var buf [64]byte
	n, err := readFile("/proc/sys/kernel/random/boot_id", buf[:])
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(buf[:n]))
}

// SelfUsage returns the resident size of this process and the number of its open descriptors; 0
// where that is unknown.
func SelfUsage() (rssBytes int64, openFDs int) {
	var buf [128]byte
	if n, err := readFile("/proc/self/statm", buf[:]); err == nil {
		_, rest := nextWord(buf[:n])
		word, _ := nextWord(rest)
		if pages, ok := parseUint(word); ok {
			rssBytes = int64(pages) * int64(os.Getpagesize())
		}
	}
	// One of them is the descriptor of the directory itself.
	return rssBytes, max(len(listDir("/proc/self/fd"))-1, 0)
}

// Children returns the direct children of a process, including zombies. It reads the lists of all
// its threads, because the kernel lists a child under the thread that forked it. If the kernel has
// no such lists (CONFIG_PROC_CHILDREN), it reads all processes.
//
// ChildWatch is cheaper for repeated calls.
func Children(pid int) []int {
	if t := readTable(); t != nil {
		return t.children[pid]
	}
	return children(pid, manyThreads)
}

// children reads the kernel's lists of children. A process with one thread has one list.
func children(pid, threads int) []int {
	if threads == 1 {
		return appendChildren(nil, childrenPath(pid))
	}
	var list []int
	for _, tid := range listDir(procPath(pid, "task")) {
		list = appendChildren(list, procPath(pid, "task/"+tid+"/children"))
	}
	return list
}

// childrenPath returns the path of the main thread's list of children.
func childrenPath(pid int) string {
	return procPath(pid, "task/"+strconv.Itoa(pid)+"/children")
}

func appendChildren(list []int, path string) []int {
	fd, err := openFile(path)
	if err != nil {
		return list
	}
	defer unix.Close(fd)
	var buf [1024]byte
	return readChildren(fd, buf[:], list)
}

// hasChildrenFiles reports whether the kernel was built with lists of children.
var hasChildrenFiles = sync.OnceValue(func() bool {
	return unix.Access("/proc/thread-self/children", unix.R_OK) == nil
})

// readTable reads all processes if the kernel has no lists of children, else it returns nil.
func readTable() *table {
	if hasChildrenFiles() && !scanOnly() {
		return nil
	}
	return makeTable(all())
}

// Now returns the current time as an Info.StartTime.
func Now() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return uint64(now.Nano() / (tickMS * 1e6))
}

// all returns the Info of every visible process.
func all() []Info {
	var infos []Info
	for _, name := range listDir("/proc") {
		if pid, err := strconv.Atoi(name); err == nil {
			if info, ok := Stat(pid); ok {
				infos = append(infos, info)
			}
		}
	}
	return infos
}

// ignores reports whether the process ignores a signal.
func ignores(pid int, sig unix.Signal) bool {
	mask, err := strconv.ParseUint(string(statusField(pid, "SigIgn:")), 16, 64)
	return err == nil && mask&(1<<(uint(sig)-1)) != 0
}

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// readFile fills buf from the start of a file in /proc. It does not use package os, which would try
// to add each file to the poller. A single read is enough, because the kernel makes the whole text
// of these files for it.
func readFile(path string, buf []byte) (n int, err error) {
	fd, err := openFile(path)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for {
		n, err = unix.Read(fd, buf)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func openFile(path string) (fd int, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// listDir returns the names in a directory, without those of the directory itself and its parent.
func listDir(path string) []string {
	fd, err := openFile(path)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	names, _ := readNames(fd)
	return names
}

// readNames is listDir for an open directory in /proc.
func readNames(fd int) (names []string, err error) {
	var buf [2048]byte
	for {
		n, err := unix.ReadDirent(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}
