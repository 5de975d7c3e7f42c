package process

import (
	"os"
	"slices"
	"strings"
	"sync"
)

// ScanVariable is an environment variable for tests. If it is set, a runner and its daemon do not
// use a subreaper, cgroups and the kernel's lists of children, none of which macOS has. They find
// processes by reading the list of all processes, as on macOS. With the value "subreaper" they only
// do without cgroups.
const ScanVariable = "TRL_TEST_SCAN"

var (
	scanOnly  = sync.OnceValue(func() bool { return noCgroups() && os.Getenv(ScanVariable) != "subreaper" })
	noCgroups = sync.OnceValue(func() bool { return os.Getenv(ScanVariable) != "" })
)

// maxEnv is the length of the longest value that Env sees.
const maxEnv = 256

// Marked returns the living processes that were started with KEY=VALUE in their environment, not
// earlier than since (an Info.StartTime; 0 for any), except this process. It can read only the
// processes of its own user, or all of them as root.
//
// It finds the processes that a crashed runner has left behind, except those that were started
// with a different environment.
func Marked(key, value string, since uint64) []Info {
	self := os.Getpid()
	var found []Info
	for _, before := range all() {
		// The start time comes first, because the environment of an older process need not be
		// opened.
		if before.StartTime < since || before.PID == self || before.Ended() {
			continue
		}
		if v, ok := Env(before.PID, key); !ok || v != value {
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

// Strays returns the processes that Marked finds and that are no longer descendants of this
// process: without a subreaper, another process adopts the orphans of its tree.
func Strays(key, value string, since uint64) []Info {
	marked := Marked(key, value, since)
	if len(marked) == 0 {
		return nil
	}
	w := newWalk(nil)
	w.below(os.Getpid())
	return slices.DeleteFunc(marked, func(i Info) bool { return w.seen[i.PID] })
}

// HelperMark is in the environment of programs that the daemon starts for itself, such as ssh. What
// they leave behind belongs to the user, such as the shared connection to a jump host, and is no
// orphan of a session.
const HelperMark = "TRL_HELPER=1"

// IsHelper reports whether a process was started with HelperMark in its environment.
func IsHelper(pid int) bool {
	key, value, _ := strings.Cut(HelperMark, "=")
	v, ok := Env(pid, key)
	return ok && v == value
}
