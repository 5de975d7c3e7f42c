package runner

import (
	"syscall"
	"time"

	"github.com/trl-dev/trl/internal/shell"
)

// task is what an Exec runs: a command of the shell, or the program that is the session.
// Its methods are safe for concurrent use.
type task interface {
	// Running reports whether it runs now.
	Running() bool
	// LastOutput is when it last wrote something; zero when it never did.
	LastOutput() time.Time
	// Usage is what it has used until now; false when it does not run.
	Usage() (userMS, systemMS, maxRSSBytes int64, ok bool)
	// BlockedReader looks for a process of it that waits for its stdin.
	BlockedReader() (shell.Reader, bool, error)
	// reads reports whether exec.input would be accepted.
	reads() bool
	// stdin is the queue of its input; nil when it has none.
	stdin() *shell.Input
	// wake follows a write to stdin that asks for it, or a read by who paces the output.
	wake()
	// stop asks for its end, with that signal first, and does not wait. A second time it
	// can only be hurried, by SIGKILL.
	stop(syscall.Signal)
	// forget drops what must not live longer than it: values and input.
	forget()
}

// shellTask is a command of the shell.
type shellTask struct {
	*shell.Command
	wakeShell func()
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
