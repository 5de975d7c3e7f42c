package process

import (
	"strings"
	"unicode/utf8"
)

// Info is what the system tells of a process. PID and StartTime together name
// it for as long as the machine runs; a PID alone may be given away again.
type Info struct {
	PID, PPID, PGID, SID int
	// StartTime is in clock ticks since boot on Linux, in microseconds since 1970
	// on macOS.
	StartTime uint64
	// State is R running, S sleeping, D waiting for a device, T stopped, Z zombie,
	// and whatever else the system has.
	State byte
	// Name is the short name of the program, not more than 15 bytes.
	Name string
	// UserMS and SystemMS are the time it used, with that of the children it has
	// waited for. (macOS tells its own only.)
	UserMS, SystemMS int64
}

// Ended reports whether nothing of the process runs any more: it only waits for
// its parent to take notice.
func (i Info) Ended() bool { return i.State == 'Z' || i.State == 'X' }

// same reports whether both tell of the same process.
func (i Info) same(o Info) bool { return i.PID == o.PID && i.StartTime == o.StartTime }

// maxCommandLine bounds what CommandLine returns, in bytes.
const maxCommandLine = 256

// CommandLine returns the arguments of a process, joined by spaces, without
// quotes; control characters and bytes that are not UTF-8 are replaced by "?". It is
// for people to read: at most 256 bytes, where the last three are "..." if there
// was more. A process without arguments gives its name in brackets, one that is
// gone the empty string.
func CommandLine(pid int) string {
	if raw := arguments(pid); len(raw) > 0 {
		return commandText(raw)
	}
	if info, ok := Stat(pid); ok {
		return "[" + commandText([]byte(info.Name)) + "]"
	}
	return ""
}

// commandText makes arguments that are each followed by a NUL fit to print.
func commandText(raw []byte) string {
	for len(raw) > 0 && raw[len(raw)-1] == 0 {
		raw = raw[:len(raw)-1]
	}
	var text strings.Builder
	fits := 0 // length of the text that leaves room for the dots
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
