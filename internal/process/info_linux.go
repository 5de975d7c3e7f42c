package process

import (
	"bytes"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// tickMS is the length of a clock tick in /proc. USER_HZ is 100 on every
// architecture that Go runs on, whatever the kernel's own clock does.
const tickMS = 10

// manyThreads stands for a number of threads that is not known.
const manyThreads = 0

// Stat looks at one process. It is false if there is none with that id.
//
// A process whose main thread has ended while others go on is shown by the kernel
// as a zombie; here it is sleeping, because it is alive.
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

// parseStat reads a line of /proc/PID/stat, see proc(5). The name is in
// parentheses and may itself hold parentheses, spaces and newlines, so it ends at
// the last one.
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
	// Field 3 is the state; those that are used of 4 to 22 are numbers.
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
		case 14, 16: // own, of waited-for children
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

// parseUint is strconv.ParseUint without turning bytes into a string. A minus sign
// gives 0: cutime and cstime are signed in the kernel, and never less in truth.
func parseUint(b []byte) (v uint64, ok bool) {
	negative := len(b) > 1 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 { // fits an int64; no field that is used comes near
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

func arguments(pid int) []byte {
	// Twice the limit: what is replaced may become shorter, never longer than that.
	buf := make([]byte, 2*maxCommandLine)
	n, err := readFile(procPath(pid, "cmdline"), buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// HighWaterRSS is the largest resident size the process ever had, in bytes; 0 if
// it is not known.
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

// BootID names the run of the machine in which start times are comparable.
func BootID() string {
	var buf [64]byte
	n, err := readFile("/proc/sys/kernel/random/boot_id", buf[:])
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(buf[:n]))
}

// SelfUsage tells the resident size of this process and how many descriptors it
// has open; 0 where that is not known.
func SelfUsage() (rssBytes int64, openFDs int) {
	var buf [128]byte
	if n, err := readFile("/proc/self/statm", buf[:]); err == nil {
		_, rest := nextWord(buf[:n])
		word, _ := nextWord(rest)
		if pages, ok := parseUint(word); ok {
			rssBytes = int64(pages) * int64(os.Getpagesize())
		}
	}
	// One of them is the descriptor that is used to count.
	return rssBytes, max(len(listDir("/proc/self/fd"))-1, 0)
}

// Children lists the direct children of a process, zombies included. It looks at
// all its threads, because a child is listed under the one that forked it. Where
// the kernel has no such lists (CONFIG_PROC_CHILDREN), it looks at all processes.
//
// For the children of one process again and again there is ChildWatch.
func Children(pid int) []int {
	if t := readTable(); t != nil {
		return t.children[pid]
	}
	return children(pid, manyThreads)
}

// children reads the kernel's lists. With a single thread there is one.
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

// childrenPath is the list of the main thread.
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

// readTable reads all processes where there is no better way, else it is nil.
func readTable() *table {
	if hasChildrenFiles() && !scanOnly() {
		return nil
	}
	return makeTable(all())
}

// Now is the present as an Info.StartTime.
func Now() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return uint64(now.Nano() / (tickMS * 1e6))
}

// all lists every process that can be seen.
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

// ignores reports whether a signal to the process would be thrown away.
func ignores(pid int, sig unix.Signal) bool {
	mask, err := strconv.ParseUint(string(statusField(pid, "SigIgn:")), 16, 64)
	return err == nil && mask&(1<<(uint(sig)-1)) != 0
}

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// readFile fills buf from the start of a file of /proc. It goes around package os,
// which would try to put each of them into the poller.
func readFile(path string, buf []byte) (n int, err error) {
	fd, err := openFile(path)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}

func openFile(path string) (fd int, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func listDir(path string) []string {
	dir, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return names
}
