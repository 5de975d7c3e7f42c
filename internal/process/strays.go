package process

import (
	"os"
	"slices"
	"sync"
)

// ScanVariable makes a runner and its daemon do without a subreaper, cgroups and the
// kernel's lists of children, when it is in their environment. It is for tests of what
// is left then, which is all that there is on macOS.
const ScanVariable = "TRL_TEST_SCAN"

var scanOnly = sync.OnceValue(func() bool { return os.Getenv(ScanVariable) != "" })

// Strays finds what carries the mark, as Marked does, and is no longer below this
// process: without a subreaper, the orphans of its tree go elsewhere.
func Strays(key, value string, since uint64) []Info {
	marked := Marked(key, value, since)
	if len(marked) == 0 {
		return nil
	}
	w := newWalk(nil)
	w.below(os.Getpid())
	return slices.DeleteFunc(marked, func(i Info) bool { return w.seen[i.PID] })
}
