package process

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// How a system call waits for input. The file of each architecture has the numbers of the calls.
const (
	callRead   = iota + 1 // argument 0 is the descriptor
	callPoll              // arguments 0 and 1 are an array of pollfd
	callSelect            // arguments 0 and 1 are a number of descriptors and a set
	callEpoll             // argument 0 is an epoll descriptor
)

// How a system call takes its timeout: argument 2 of poll, 4 of select, 3 of epoll.
const (
	noLimit = iota
	millis  // a number; negative: no timeout
	spec    // a pointer to seconds and nanoseconds; nil: no timeout
	micros  // a pointer to seconds and microseconds; nil: no timeout
)

// inputCall is a system call that can wait for input.
type inputCall struct{ kind, limit int }

// briefly is the longest timeout that does not count as waiting: the program only checks for
// input and has other things to do.
const briefly = 20 * time.Millisecond

// CanSeeReads returns nil if the system reports in which system call a process is blocked, else
// ErrUnseen. That needs a kernel with CONFIG_HAVE_ARCH_TRACEHOOK and the right to trace the
// process.
func CanSeeReads(pid int) error {
	var buf [256]byte
	_, err := readFile(procPath(pid, "syscall"), buf[:])
	if err == nil && len(inputCalls) > 0 {
		return nil
	}
	if _, alive := Stat(pid); !alive {
		return nil
	}
	return ErrUnseen
}

// BlockedReader looks for a thread of the process that is blocked until it can read from the pipe
// or, with terminals, from a terminal in whose foreground the process is. A thread that waits for
// several files counts if one of them is the pipe or such a terminal. A process that cannot be
// inspected counts as not blocked.
func BlockedReader(pid int, pipe FileID, terminals bool) (Reader, bool) {
	return fileLook{pid: pid, pipe: pipe, terminals: terminals}.blocked()
}

// TerminalReader is BlockedReader for one terminal, given by its device number; see PTY.Device.
func TerminalReader(pid int, device uint64) (Reader, bool) {
	return fileLook{pid: pid, terminals: true, device: device}.blocked()
}

// blocked returns the first thread that waits for input.
func (l fileLook) blocked() (Reader, bool) {
	pid := l.pid
	for _, name := range listDir(procPath(pid, "task")) {
		var buf [256]byte
		n, err := readFile(procPath(pid, "task/"+name+"/syscall"), buf[:])
		if err != nil {
			continue // the thread has just ended, or we may not inspect it
		}
		call, ok := parseSyscall(buf[:n])
		if !ok || !l.waits(call) {
			continue
		}
		tid, _ := strconv.Atoi(name)
		return Reader{PID: pid, thread: tid, call: string(buf[:n]), switches: switches(pid, name)}, true
	}
	return Reader{}, false
}

// FileIDOf returns the id of the file behind a descriptor of this process.
func FileIDOf(fd int) FileID {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return FileID{}
	}
	return FileID{Dev: uint64(st.Dev), Ino: st.Ino}
}

// syscallArgs is a system call in which a thread is blocked.
type syscallArgs struct {
	number uint64
	args   [6]uint64
}

// parseSyscall parses /proc/PID/task/TID/syscall, see proc(5): a number, six arguments, the stack
// pointer and the program counter. It returns false for a thread that is running or not in a
// system call, and for a 32-bit program, whose system calls have other numbers.
func parseSyscall(line []byte) (call syscallArgs, ok bool) {
	word, rest := nextWord(line)
	if call.number, ok = parseUint(word); !ok || word[0] == '-' {
		return syscallArgs{}, false
	}
	for i := range call.args {
		word, rest = nextWord(rest)
		if call.args[i], ok = parseHex(word); !ok {
			return syscallArgs{}, false
		}
	}
	word, _ = nextWord(rest)
	stack, ok := parseHex(word)
	if !ok || stack < 1<<32 {
		return syscallArgs{}, false
	}
	return call, true
}

func parseHex(b []byte) (v uint64, ok bool) {
	if len(b) < 3 || len(b) > 18 || b[0] != '0' || b[1] != 'x' {
		return 0, false
	}
	for _, c := range b[2:] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(c)
	}
	return v, true
}

// fileLook finds out whether a thread of a process waits for input from certain files.
type fileLook struct {
	pid       int
	pipe      FileID
	terminals bool
	device    uint64 // the one terminal that counts; 0 for any
}

// maxWatched limits how many descriptors of one poll or select are inspected.
const maxWatched = 1024

// waits reports whether a system call waits for input from one of the files.
func (l fileLook) waits(call syscallArgs) bool {
	var fds []uint64
	c := inputCalls[call.number]
	if l.limit(c, call) <= briefly {
		return false
	}
	switch c.kind {
	case callRead:
		fds = []uint64{call.args[0]}
	case callPoll:
		fds = polled(l.memory(call.args[0], min(call.args[1], maxWatched)*pollfdSize))
	case callSelect:
		if call.args[1] != 0 {
			fds = selected(l.memory(call.args[1], (min(call.args[0], maxWatched)+63)/64*8), call.args[0])
		}
	case callEpoll:
		buf := make([]byte, 16<<10)
		if n, err := readFile(procPath(l.pid, "fdinfo/"+strconv.FormatUint(call.args[0], 10)), buf); err == nil {
			fds = parseEpoll(buf[:n])
		}
	}
	for _, fd := range fds {
		if l.isInput(fd) {
			return true
		}
	}
	return false
}

// limit returns the timeout of a system call.
func (l fileLook) limit(c inputCall, call syscallArgs) time.Duration {
	arg := call.args[map[int]int{callPoll: 2, callSelect: 4, callEpoll: 3}[c.kind]]
	unit := map[int]time.Duration{spec: time.Nanosecond, micros: time.Microsecond}[c.limit]
	switch {
	case c.limit == millis && int32(arg) >= 0:
		return time.Duration(int32(arg)) * time.Millisecond
	case unit == 0 || arg == 0:
		return math.MaxInt64
	}
	b := l.memory(arg, 16)
	if len(b) < 16 {
		return math.MaxInt64
	}
	seconds, rest := binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:])
	if seconds > 0 {
		return math.MaxInt64 // longer than briefly in any case
	}
	return time.Duration(rest) * unit
}

// pollfdSize is the size of struct pollfd: an int and two shorts.
const pollfdSize = 8

// polled returns the descriptors of an array of pollfd that are watched for input.
func polled(array []byte) (fds []uint64) {
	for ; len(array) >= pollfdSize; array = array[pollfdSize:] {
		fd, events := int32(binary.NativeEndian.Uint32(array)), binary.NativeEndian.Uint16(array[4:])
		if fd >= 0 && events&(unix.EPOLLIN|unix.EPOLLRDNORM) != 0 { // the same numbers as for poll
			fds = append(fds, uint64(fd))
		}
	}
	return fds
}

// selected returns the descriptors below n in an fd_set, which is an array of long.
func selected(set []byte, n uint64) (fds []uint64) {
	for i := uint64(0); len(set) >= 8; set = set[8:] {
		for word := binary.NativeEndian.Uint64(set); word != 0; word &= word - 1 {
			if fd := i + uint64(bits.TrailingZeros64(word)); fd < n {
				fds = append(fds, fd)
			}
		}
		i += 64
	}
	return fds
}

// parseEpoll returns the descriptors of an epoll set that are watched for input. It
// reads lines such as "tfd:        5 events:       19 data: …" of /proc/PID/fdinfo/FD.
func parseEpoll(text []byte) (fds []uint64) {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte("tfd:"))
		if !ok {
			continue
		}
		word, rest := nextWord(rest)
		fd, ok := parseUint(word)
		if key, _ := nextWord(rest); !ok || string(key) != "events:" {
			continue
		}
		_, rest = nextWord(rest)
		word, _ = nextWord(rest)
		events, err := strconv.ParseUint(string(word), 16, 64)
		if err == nil && events&(unix.EPOLLIN|unix.EPOLLRDNORM) != 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

// memory returns a copy of a part of the process's memory; empty if it cannot be read.
func (l fileLook) memory(addr, size uint64) []byte {
	fd, err := openFile(procPath(l.pid, "mem"))
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	buf := make([]byte, size)
	n, err := unix.Pread(fd, buf, int64(addr))
	if err != nil {
		return nil
	}
	return buf[:n]
}

// isInput reports whether a descriptor of the process is the pipe, or a terminal in question.
func (l fileLook) isInput(fd uint64) bool {
	if fd > 1<<20 {
		return false
	}
	var st unix.Stat_t
	if unix.Stat(procPath(l.pid, "fd/"+strconv.FormatUint(fd, 10)), &st) != nil {
		return false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return l.pipe != FileID{} && l.pipe == FileID{Dev: uint64(st.Dev), Ino: st.Ino}
	case unix.S_IFCHR:
		return l.terminals && l.isTerminal(unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
	}
	return false
}

// isTerminal reports whether a device is a terminal from which the process would get input. The
// master of a pseudo-terminal (5, 2) is not: a process that reads it waits for a program.
func (l fileLook) isTerminal(major, minor uint32) bool {
	var buf [1024]byte
	n, err := readFile(procPath(l.pid, "stat"), buf[:])
	if err != nil {
		return false
	}
	group, tty, foreground, ok := parseTerminal(buf[:n])
	if !ok {
		return false
	}
	ownMajor, ownMinor := tty>>8&0xfff, tty&0xff|tty>>12&0xfff00
	if major == 5 && minor == 0 { // /dev/tty is another name of the controlling terminal
		major, minor = ownMajor, ownMinor
	}
	switch {
	case l.device != 0 && unix.Mkdev(major, minor) != l.device:
		return false
	case tty != 0 && major == ownMajor && minor == ownMinor:
		return group == foreground
	case major == 5:
		return minor == 1
	}
	return major == 4 || major >= 136 && major <= 143
}

// parseTerminal returns the process group, the controlling terminal and the terminal's foreground
// group from a line of /proc/PID/stat.
func parseTerminal(line []byte) (group, tty, foreground uint32, ok bool) {
	rest := line[bytes.LastIndexByte(line, ')')+1:]
	var fields [6]int64 // fields 3 to 8: 3 is the state, 5 the group, 7 the terminal, 8 its foreground group
	for i := range fields {
		var word []byte
		word, rest = nextWord(rest)
		v, err := strconv.ParseInt(string(word), 10, 64)
		if i > 0 && err != nil {
			return 0, 0, 0, false
		}
		fields[i] = v
	}
	return uint32(fields[2]), uint32(fields[4]), uint32(fields[5]), true
}

// switches returns how often a thread has given up the processor. If the number has not changed,
// the thread has not run.
func switches(pid int, tid string) string {
	buf := make([]byte, 8<<10)
	n, err := readFile(procPath(pid, "task/"+tid+"/status"), buf)
	if err != nil {
		return ""
	}
	_, after, _ := bytes.Cut(buf[:n], []byte("\nvoluntary_ctxt_switches:"))
	word, _ := nextWord(bytes.TrimLeft(after, "\t"))
	return string(word)
}
