package runner

import (
	"syscall"
	"time"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/shell"
)

// task is the running part of an Exec: a command of the shell, a program beside the shell, or
// the program of the session.
// Its methods are safe for concurrent use.
type task interface {
	// Running reports whether it runs now.
	Running() bool
	// LastOutput is when it last wrote something; zero when it never did.
	LastOutput() time.Time
	// Usage is its CPU time and memory until now; false when it does not run.
	Usage() (userMS, systemMS, maxRSSBytes int64, ok bool)
	// BlockedReader looks for one of its processes that is blocked reading stdin.
	BlockedReader() (shell.Reader, bool, error)
	// processes returns its living processes: all, or only the leaders, which are the program, or
	// the children of the shell.
	processes(leaders bool) []process.Info
	// reads reports whether exec.input would be accepted.
	reads() bool
	// stdin is the queue of its input; nil when it has none.
	stdin() *shell.Input
	// wake makes the loop of its pipes look again: after a write to stdin that asks for it, and
	// after a read that makes room for more output.
	wake()
	// stop asks for its end, with that signal first, and does not wait. A second call has an
	// effect only with SIGKILL, which ends the grace time.
	stop(syscall.Signal)
	// forget drops the environment values and the input, which must not outlive it.
	forget()
}

// shellTask is a command of the shell.
type shellTask struct {
	*shell.Command
	wakeShell func()
}

func (t shellTask) processes(leaders bool) []process.Info {
	list, _ := t.Processes(leaders)
	return list
}

func (t shellTask) reads() bool         { return t.Input != nil && t.Input.Open() }
func (t shellTask) stdin() *shell.Input { return t.Input }
func (t shellTask) wake()               { t.wakeShell() }

func (t shellTask) stop(sig syscall.Signal) {
	select {
	case t.Abort <- sig:
	default:
	}
	t.wakeShell()
}

func (t shellTask) forget() {
	t.Env, t.Stdin = nil, nil
	if t.Input != nil {
		t.Input.Discard()
	}
}

// stopper passes the request to end a program to the goroutine that attends to it.
type stopper struct {
	first chan syscall.Signal // has the first signal when the end is asked for; room for one
	force chan struct{}       // has a value when the end cannot wait for the grace time
}

func newStopper() stopper { return stopper{make(chan syscall.Signal, 1), make(chan struct{}, 1)} }

func (s stopper) stop(sig syscall.Signal) {
	select {
	case s.first <- sig:
	default:
	}
	if sig == syscall.SIGKILL {
		select {
		case s.force <- struct{}{}:
		default:
		}
	}
}
