package process

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// Marked finds the living processes that were started with KEY=VALUE in their
// environment, not before since (an Info.StartTime; 0 for any). This process is
// left out. Only processes of our own user can be read, as root those of all.
//
// It finds what a runner that crashed has left behind. A process that was started
// with an environment of its own making is not found.
func Marked(key, value string, since uint64) []Info {
	mark := []byte(key + "=" + value)
	self := unix.Getpid()
	var found []Info
	for _, before := range all() {
		// The start time comes first: what is too old is not even opened.
		if before.StartTime < since || before.PID == self || before.Ended() || !hasEnv(before.PID, mark) {
			continue
		}
		// The environment that was read is that of this process only if the id was
		// not given away meanwhile.
		if now, ok := Stat(before.PID); ok && now.same(before) && !now.Ended() {
			found = append(found, now)
		}
	}
	return found
}

// hasEnv looks for an entry in the environment a process was started with.
func hasEnv(pid int, entry []byte) bool {
	fd, err := openFile(procPath(pid, "environ"))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	// An environment may have megabytes: it is read in pieces, and of an entry that
	// does not fit only as much is kept as shows that it is another one.
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
