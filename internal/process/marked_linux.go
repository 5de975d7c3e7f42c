package process

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// Marked returns the living processes that were started with KEY=VALUE in their environment, not
// earlier than since (an Info.StartTime; 0 for any), except this process. It can read only the
// processes of its own user, or all of them as root.
//
// It finds the processes that a crashed runner has left behind, except those that were started
// with a different environment.
func Marked(key, value string, since uint64) []Info {
	mark := []byte(key + "=" + value)
	self := unix.Getpid()
	var found []Info
	for _, before := range all() {
		// The start time comes first, because the environment of an older process need not be
		// opened.
		if before.StartTime < since || before.PID == self || before.Ended() || !hasEnv(before.PID, mark) {
			continue
		}
		// Another process may have got the id in the meantime; then the environment that was
		// read may be that of the other one.
		if now, ok := Stat(before.PID); ok && now.same(before) && !now.Ended() {
			found = append(found, now)
		}
	}
	return found
}

// IsHelper reports whether a process was started with HelperMark in its environment.
func IsHelper(pid int) bool { return hasEnv(pid, []byte(HelperMark)) }

// hasEnv reports whether a process was started with an entry in its environment.
func hasEnv(pid int, entry []byte) bool {
	fd, err := openFile(procPath(pid, "environ"))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	// An environment can have megabytes, so it is read in pieces. An entry that is longer than
	// the wanted one is dropped.
	buf := make([]byte, max(4096, 2*(len(entry)+1)))
	held := 0        // bytes at the start of buf that belong to an unfinished entry
	inEntry := false // the beginning of the unfinished entry was dropped
	for {
		n, err := unix.Read(fd, buf[held:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return !inEntry && bytes.Equal(buf[:held], entry)
		}
		rest := buf[:held+n]
		for {
			end := bytes.IndexByte(rest, 0)
			if end < 0 {
				break
			}
			if !inEntry && bytes.Equal(rest[:end], entry) {
				return true
			}
			rest, inEntry = rest[end+1:], false
		}
		if len(rest) > len(entry) {
			rest, inEntry = nil, true
		}
		held = copy(buf, rest)
	}
}
