package process

import (
	"os"
	"slices"
	"sync"
)

// ScanVariable is an environment variable for tests. If it is set, a runner and its daemon do not
// use a subreaper, cgroups and the kernel's lists of children, none of which macOS has. They find
// processes by reading the list of all processes, as on macOS.
const ScanVariable = "TRL_TEST_SCAN"

var scanOnly = sync.OnceValue(func() bool { return os.Getenv(ScanVariable) != "" })

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
