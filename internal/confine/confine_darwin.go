package confine

import (
	"io"
	"os"
	"syscall"

	"github.com/trl-dev/trl/internal/process"
)

// join does nothing: macOS has no cgroups.
func (c *Confinement) join() (what string, err error) { return "", nil }

// statusPair makes the pipe in which a process reports why it cannot start.
func statusPair() (ours, theirs *os.File, err error) { return os.Pipe() }

func (c *Confinement) listen(status *os.File) ([]byte, error) { return io.ReadAll(status) }

func (i *Isolation) prepare(*process.Spec) {}

func (i *Isolation) enter(int) (what string, err error) { return "", nil }

// seal becomes the program, by way of sandbox-exec if there is isolation.
func (i *Isolation) seal(path string, argv, env []string) (what string, err error) {
	if i != nil {
		const sandbox = "/usr/bin/sandbox-exec"
		argv = append([]string{sandbox, "-p", i.Profile, path}, argv[1:]...)
		path = sandbox
	}
	return path, syscall.Exec(path, argv, env)
}
