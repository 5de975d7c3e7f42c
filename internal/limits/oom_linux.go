package limits

import (
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
)

// LastOOM returns the last process of a session that the kernel's log reports as killed for lack of
// memory, and the name of the group whose limit was reached. Only root, or a user whom the system lets
// read the log, gets an answer; other callers get a process with the id 0.
func LastOOM(sessionID string) (kill api.OOMKill, group string) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return kill, ""
	}
	defer unix.Close(fd)
	buf := make([]byte, 8192) // the kernel returns one record at a time, and none is longer
	pid, in := "", ""
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EPIPE || err == unix.EINTR { // records were overwritten meanwhile
			continue
		}
		if err != nil || n == 0 {
			return kill, group
		}
		record := string(buf[:n])
		if found, full := victimOf(record, sessionID); found != "" {
			pid, in = found, full
		}
		if k, ok := killedIn(record); ok && pid != "" && strconv.Itoa(k.PID) == pid {
			kill, group = k, in
		}
	}
}

// victimOf returns the process id and the name of the group without memory in a record such as
//
//	oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/trl-0/s-1,task_memcg=/trl-0/s-1,task=perl,pid=7,uid=0
//
// if the process belongs to the session.
func victimOf(record, sessionID string) (pid, group string) {
	_, rest, ok := strings.Cut(record, "oom-kill:")
	if !ok || !strings.Contains(rest, "/"+sessionID) {
		return "", ""
	}
	// The name of the process may have commas, so the id is looked for from the end.
	i := strings.LastIndex(rest, ",pid=")
	if i < 0 {
		return "", ""
	}
	pid, _, _ = strings.Cut(rest[i+len(",pid="):], ",")
	_, group, _ = strings.Cut(rest, ",oom_memcg=")
	group, _, _ = strings.Cut(group, ",")
	return pid, path.Base(group)
}

// killedIn reads a record such as
//
//	Memory cgroup out of memory: Killed process 7 (perl) total-vm:9kB, anon-rss:5kB, file-rss:3kB, shmem-rss:0kB, …
func killedIn(record string) (kill api.OOMKill, ok bool) {
	_, rest, found := strings.Cut(record, "Killed process ")
	number, rest, okID := strings.Cut(rest, " (")
	end := strings.LastIndex(rest, ") total-vm:")
	if !found || !okID || end < 0 {
		return kill, false
	}
	kill.PID, _ = strconv.Atoi(number)
	kill.Command = rest[:end]
	for _, word := range []string{"anon-rss:", "file-rss:", "shmem-rss:"} {
		_, value, _ := strings.Cut(rest[end:], word)
		value, _, _ = strings.Cut(value, "kB")
		kb, _ := strconv.ParseInt(value, 10, 64)
		kill.RSSBytes += kb << 10
	}
	return kill, true
}
