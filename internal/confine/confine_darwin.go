package confine

import (
	"io"
	"os"
	"syscall"

	"github.com/trl-dev/trl/internal/process"
)

// direct returns false: every confined process begins as a copy of the runner.
func (c *Confinement) direct() bool { return false }

func (c *Confinement) start(func(process.Spec) (*process.Process, error), process.Spec) (*process.Process, error) {
	return nil, syscall.ENOSYS
}

// statusPair makes the pipe in which a process reports why it cannot start.
func statusPair() (ours, theirs *os.File, err error) { return os.Pipe() }

func (c *Confinement) listen(status *os.File) ([]byte, error) { return io.ReadAll(status) }

func (i *Isolation) prepare(*process.Spec) {}

// become applies the limits and becomes the program, by way of sandbox-exec if there is isolation. It returns
// only with an error, and what the error is about.
func (c *Confinement) become(_ int, path string, argv []string) (what string, err error) {
	for _, r := range c.Rlimits {
		lim := r.lowered()
		if err = syscall.Setrlimit(r.Resource, &lim); err != nil {
			return r.String(), err
		}
	}
	if c.Isolation != nil {
		const sandbox = "/usr/bin/sandbox-exec"
		argv = append([]string{sandbox, "-p", c.Isolation.Profile, path}, argv[1:]...)
		path = sandbox
	}
	return path, syscall.Exec(path, argv, os.Environ())
}
