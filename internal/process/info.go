package process

import (
	"strings"
	"unicode/utf8"
)

// Info is what the system reports about a process. PID and StartTime together identify it until
// the machine restarts; a PID alone can be reused.
type Info struct {
	PID, PPID, PGID, SID int
	// StartTime is in clock ticks since boot on Linux, in microseconds since 1970
	// on macOS.
	StartTime uint64
	// State is R running, S sleeping, D waiting for a device, T stopped, Z zombie, or another
	// letter of the system.
	State byte
	// Name is the short name of the program, not more than 15 bytes.
	Name string
	// UserMS and SystemMS are the processor time of the process and of the children that it
	// has waited for. On macOS, the children are not included.
	UserMS, SystemMS int64
}

// Ended reports whether the process has ended and only waits for its parent to reap it.
func (i Info) Ended() bool { return i.State == 'Z' || i.State == 'X' }

// same reports whether both describe the same process.
func (i Info) same(o Info) bool { return i.PID == o.PID && i.StartTime == o.StartTime }

// maxCommandLine limits the result of CommandLine, in bytes.
const maxCommandLine = 256

// CommandLine returns the arguments of a process, joined by spaces, for people to read. It adds no
// quotes, and replaces control characters and invalid UTF-8 by "?". The text has at most 256
// bytes and ends with "..." if it was cut off. For a process without arguments, it is the
// process's name in brackets; for one that has ended, it is empty.
func CommandLine(pid int) string {
	if raw := arguments(pid); len(raw) > 0 {
		return commandText(raw)
	}
	if info, ok := Stat(pid); ok {
		return "[" + commandText([]byte(info.Name)) + "]"
	}
	return ""
}

// commandText makes arguments, each followed by a NUL, printable.
func commandText(raw []byte) string {
	for len(raw) > 0 && raw[len(raw)-1] == 0 {
		raw = raw[:len(raw)-1]
	}
	var text strings.Builder
	fits := 0 // length of the longest text that leaves room for "..."
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		raw = raw[size:]
		switch {
		case r == 0:
			r = ' '
		case r < ' ', r >= 0x7f && r < 0xa0, r == utf8.RuneError && size == 1:
			r = '?'
		}
		if text.Len()+utf8.RuneLen(r) > maxCommandLine {
			return text.String()[:fits] + "..."
		}
		text.WriteRune(r)
		if text.Len() <= maxCommandLine-3 {
			fits = text.Len()
		}
	}
	return text.String()
}
