// Package confine starts a process of a session within its confinement: the cgroups that limit it
// and the limits of the process itself.
//
// A confined process begins as a second copy of the runner, which applies the confinement to itself
// and then becomes the program. Nothing of the program runs unconfined, and a confinement that
// cannot be applied is an error of Start, not a process without it.
package confine

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/trl-dev/trl/internal/process"
)

// Verb is the first argument of a runner that confines itself and becomes another program.
const Verb = "enter"

// Confinement is what a process may use. It is applied in the order of the fields.
type Confinement struct {
	// Join lists the files cgroup.procs of the groups that the process enters.
	Join []string `json:"join,omitempty"`
	// Rlimits are applied as soft and hard limits.
	Rlimits []Rlimit `json:"rlimits,omitempty"`
	// OOMScoreAdj makes the kernel prefer the process as a victim when memory is short; 0 leaves
	// it as it is.
	OOMScoreAdj int `json:"oom_score_adj,omitempty"`
}

// Rlimit is a limit of setrlimit(2).
type Rlimit struct {
	Resource int    `json:"resource"`
	Max      uint64 `json:"max"`
}

// empty reports whether there is nothing to apply.
func (c *Confinement) empty() bool {
	return c == nil || len(c.Join) == 0 && len(c.Rlimits) == 0 && c.OOMScoreAdj == 0
}

// Start starts a process with start, confined. It returns when the process is the program of spec,
// or reports why it cannot be. Without a confinement it only calls start.
func Start(start func(process.Spec) (*process.Process, error), spec process.Spec, c *Confinement) (*process.Process, error) {
	if c.empty() {
		return start(spec)
	}
	self := "/proc/self/exe" // also when the file was replaced
	if runtime.GOOS != "linux" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	status, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer status.Close()
	fd := len(spec.Files)
	spec.Args = append([]string{"trl-runner", Verb, strconv.Itoa(fd), string(text), spec.Path}, spec.Args...)
	spec.Files = append(spec.Files[:fd:fd], theirs)
	spec.Path = self
	if len(c.Join) > 0 {
		spec.CgroupFD = 0 // the process enters its groups at the end, when it needs no more threads
	}
	p, err := start(spec)
	theirs.Close()
	if err != nil {
		return nil, err
	}
	// The pipe closes when the process becomes the program, or ends.
	why, err := io.ReadAll(status)
	if len(why) == 0 && err == nil {
		return p, nil
	}
	<-p.Done()
	number, what, _ := strings.Cut(string(why), " ")
	if errno, numErr := strconv.Atoi(number); numErr == nil && errno > 0 {
		return nil, &os.PathError{Op: "start confined", Path: what, Err: syscall.Errno(errno)}
	}
	return nil, errors.New("start confined: " + what)
}

// Enter is the process that Start starts: it applies the confinement and becomes the program. The
// order is cgroups, namespaces, limits of the process, no_new_privs, file and network rules, filters
// of system calls, exec: each step would forbid an earlier one. Only the steps that the session
// wants are taken. Enter returns the exit status if that fails.
func Enter(args []string) int {
	if len(args) < 4 {
		return 2
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil || fd < 3 {
		return 2
	}
	syscall.CloseOnExec(fd)
	debug.SetGCPercent(-1) // a collection would need threads
	var c Confinement
	what := args[2]
	if err = json.Unmarshal([]byte(args[1]), &c); err == nil {
		what, err = c.become(args[2], args[3:])
	}
	number := 0
	var errno syscall.Errno
	if errors.As(err, &errno) {
		number = int(errno)
	} else {
		what = err.Error()
	}
	_, _ = syscall.Write(fd, []byte(strconv.Itoa(number)+" "+what))
	return 126
}

// become applies the confinement and becomes the program. It returns only with an error, and what
// the error is about.
func (c *Confinement) become(path string, argv []string) (what string, err error) {
	env := os.Environ()
	if what, err = c.join(); err != nil {
		return what, err
	}
	for _, r := range c.Rlimits {
		lim := syscall.Rlimit{Cur: r.Max, Max: r.Max}
		var now syscall.Rlimit
		if syscall.Getrlimit(r.Resource, &now) == nil && now.Max < r.Max {
			lim.Cur, lim.Max = now.Max, now.Max // the user's own limit is lower
		}
		if err = syscall.Setrlimit(r.Resource, &lim); err != nil {
			return "limit " + strconv.Itoa(r.Resource), err
		}
	}
	return path, syscall.Exec(path, argv, env)
}
