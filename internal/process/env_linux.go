package process

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// Env returns the value that a variable had when the process was started. It does not see a
// value that is longer than maxEnv.
func Env(pid int, key string) (value string, ok bool) {
	fd, err := openFile(procPath(pid, "environ"))
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	// An environment can have megabytes, so it is read in pieces. An entry that is too long is
	// dropped.
	prefix, most := []byte(key+"="), len(key)+1+maxEnv
	buf := make([]byte, max(4096, 2*(most+1)))
	held := 0        // bytes at the start of buf that belong to an unfinished entry
	inEntry := false // the beginning of the unfinished entry was dropped
	for {
		n, err := unix.Read(fd, buf[held:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			v, found := bytes.CutPrefix(buf[:held], prefix)
			return string(v), found && !inEntry
		}
		rest := buf[:held+n]
		for {
			end := bytes.IndexByte(rest, 0)
			if end < 0 {
				break
			}
			if v, found := bytes.CutPrefix(rest[:end], prefix); found && !inEntry && end <= most {
				return string(v), true
			}
			rest, inEntry = rest[end+1:], false
		}
		if len(rest) > most {
			rest, inEntry = nil, true
		}
		held = copy(buf, rest)
	}
}
