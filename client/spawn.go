package client

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
)

// endTimeout is how long a daemon that Spawn started may take to end its sessions.
const endTimeout = 20 * time.Second

// Spawn starts a private daemon as a child process and speaks to it over its stdin and stdout. argv
// is the command, by default trl serve --stdio; the daemon inherits stderr from this process. Close
// ends the daemon with all its sessions and waits for it. The context bounds only the start.
func Spawn(ctx context.Context, argv ...string) (*Client, error) {
	if len(argv) == 0 {
		argv = []string{"trl", "serve", "--stdio"}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, spawnError(argv, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, spawnError(argv, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, spawnError(argv, err)
	}
	ch := &child{cmd: cmd, stdout: stdout, exited: make(chan struct{})}
	c := newClient(ch, 0)
	ch.conn = newConn(childPipes{stdout, stdin}, c.finish)
	go ch.reap()
	if _, err := c.SystemPing(ctx, api.SystemPingParams{}); err != nil {
		_ = c.Close()
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, spawnError(argv, fmt.Errorf("%w (%s)", err, cmd.ProcessState))
	}
	return c, nil
}

func spawnError(argv []string, err error) error {
	return fmt.Errorf("%w: %w", api.Errorf(api.CodeRuntimeUnavailable, "daemon %q", strings.Join(argv, " ")), err)
}

// childPipes closes only the daemon's stdin. If its stdout were closed too, the daemon could not
// write its last answers, and would end before it has ended its sessions.
type childPipes struct {
	io.Reader
	io.WriteCloser
}

// child is the transport of Spawn.
//
// Goroutines: reap, which ends with the process.
type child struct {
	pipe
	cmd    *exec.Cmd
	stdout io.Closer
	exited chan struct{} // closed when the process has been waited for
}

func (ch *child) reap() {
	defer close(ch.exited)
	<-ch.conn.read // Wait closes the pipe that the reader uses
	_ = ch.cmd.Wait()
}

func (ch *child) peer() (int, bool) { return ch.cmd.Process.Pid, true }

func (ch *child) close() error {
	ch.conn.close()
	_ = ch.cmd.Process.Signal(syscall.SIGTERM) // without a signal, the daemon would first answer all pending requests
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-ch.exited:
		return nil
	case <-timer.C:
	}
	_ = ch.cmd.Process.Kill()
	_ = ch.stdout.Close()
	<-ch.exited
	return api.Errorf(api.CodeRuntimeUnavailable, "daemon, pid %d: did not end within %s and was killed", ch.cmd.Process.Pid, endTimeout)
}
