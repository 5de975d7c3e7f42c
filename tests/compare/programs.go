//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/runtimes/docker/dockertest"
	"github.com/trl-dev/trl/internal/runtimes/ssh/sshdtest"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// program runs a program as subprocess.run of Python does: at the limit it kills the program, and it
// returns when no process has the output open any more.
func program(ctx context.Context, limit time.Duration, args ...string) (answer, error) {
	if limit > 0 {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = limited
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		return answer{exited.ExitCode(), out.Bytes()}, nil
	}
	return answer{output: out.Bytes()}, err
}

// count runs a program and counts its output instead of keeping it.
func count(ctx context.Context, args ...string) (int, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, out)
	return int(n), errors.Join(err, cmd.Wait())
}

func bashC(f *fixture, _ string) *subject {
	bash := f.need("", "bash", "it is the floor")
	s := recipe(f, []string{bash, "-c"})
	s.version = f.firstLine(bash, "-c", "echo $BASH_VERSION")
	return s
}

// recipe runs each command with the program and arguments of words, which take shell text behind them.
func recipe(f *fixture, words []string) *subject {
	path := f.need("", words[0], "install it")
	with := func(command string) []string { return slices.Concat([]string{path}, words[1:], []string{command}) }
	return &subject{
		version: strings.Join(words, " "),
		run: func(ctx context.Context, command string, limit time.Duration) (answer, error) {
			return program(ctx, limit, with(command)...)
		},
		bulk: func(ctx context.Context, command string) (int, error) { return count(ctx, with(command)...) },
	}
}

func trl(f *fixture, binary string) *subject {
	binary, err := filepath.Abs(binary)
	f.must(err)
	if _, err := os.Stat(binary); err != nil {
		f.Fatalf("%s (run make build first)", err)
	}
	d := trltest.Start(f, trltest.Use(binary), trltest.Args("--log-level", "error"))
	c := d.Client(f)
	ctx := context.Background()
	id := testkit.Must(c.SessionCreate(ctx, api.SessionCreateParams{Shell: "bash"}))(f).SessionID
	s := &subject{version: f.firstLine(binary, "version"), session: true, crash: d.Kill9}
	s.run = func(ctx context.Context, command string, limit time.Duration) (answer, error) {
		seconds := limit.Seconds()
		r, err := c.ExecRun(ctx, api.ExecParams{SessionID: id, Command: command, TimeoutS: &seconds})
		return answer{r.ExitCode, []byte(r.Stdout)}, err
	}
	s.bulk = func(ctx context.Context, command string) (int, error) {
		out, err := c.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: id, Command: command}})
		if err != nil {
			return 0, err
		}
		defer out.Close()
		for n := 0; ; {
			event, err := out.Recv()
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			if err != nil {
				return n, err
			}
			n += len(api.Data(event.Data, event.DataBase64))
		}
	}
	s.again = func(ctx context.Context) ([]byte, error) {
		d.Restart(f)
		return lastOutput(ctx, d.Client(f), id)
	}
	return s
}

// lastOutput returns the output of the last command of a session, once it has ended.
func lastOutput(ctx context.Context, c *client.Client, session string) ([]byte, error) {
	list, err := c.ExecList(ctx, api.ExecListParams{SessionID: session})
	if err != nil || len(list.Execs) == 0 {
		return nil, fmt.Errorf("%d commands: %w", len(list.Execs), err)
	}
	id := list.Execs[len(list.Execs)-1].ExecID
	if _, err := c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{id}}); err != nil {
		return nil, err
	}
	out, err := c.ExecOutput(ctx, api.ExecOutputParams{ExecID: id})
	return api.Data(out.Data, out.DataBase64), err
}

// tmux is driven as scripts do: keys are sent to a shell, which reports its status in a file and
// its end with wait-for.
func tmux(f *fixture, _ string) *subject {
	path := f.need("", "tmux", "install the package tmux")
	dir := f.TempDir()
	servers, socket := 0, "" // of the present server; one that ends may hold its socket for a while
	call := func(ctx context.Context, args ...string) error {
		return exec.CommandContext(ctx, path, append([]string{"-S", socket}, args...)...).Run()
	}
	s := &subject{version: f.firstLine(path, "-V"), session: true}
	stop := func() { _ = call(context.Background(), "kill-server") }
	f.Cleanup(stop)
	s.renew = func() {
		stop()
		servers++
		socket = fmt.Sprint(dir, "/socket", servers)
		f.must(call(context.Background(), "-f", "/dev/null", "new-session", "-d", "-s", "s", "-x", "200", "-y", "50", "bash --norc"))
		pid, err := strconv.Atoi(f.firstLine(path, "-S", socket, "display-message", "-p", "#{pid}"))
		f.must(err)
		s.crash = func() { _ = syscall.Kill(pid, syscall.SIGKILL) }
	}
	n := 0
	s.run = func(ctx context.Context, command string, limit time.Duration) (answer, error) {
		n++
		signal, file := fmt.Sprint("done", n), fmt.Sprint(dir, "/status", n)
		line := fmt.Sprintf("%s; echo $? >%s; %s -S %s wait-for -S %s", command, file, path, socket, signal)
		if err := call(ctx, "clear-history", "-t", "s"); err != nil {
			return answer{}, err
		}
		if err := call(ctx, "send-keys", "-t", "s", "-l", line); err != nil {
			return answer{}, err
		}
		if err := call(ctx, "send-keys", "-t", "s", "Enter"); err != nil {
			return answer{}, err
		}
		waiting, cancel := ctx, context.CancelFunc(func() {})
		if limit > 0 {
			waiting, cancel = context.WithTimeout(ctx, limit)
		}
		defer cancel()
		if err := call(waiting, "wait-for", signal); waiting.Err() != nil {
			_ = call(context.Background(), "send-keys", "-t", "s", "C-c")
			return answer{}, errors.Join(err, waiting.Err())
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return answer{}, err
		}
		status, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return answer{}, err
		}
		screen, err := exec.CommandContext(ctx, path, "-S", socket, "capture-pane", "-p", "-S", "-", "-t", "s").Output()
		return answer{status, screen}, err
	}
	s.bulk = func(ctx context.Context, command string) (int, error) {
		if err := call(ctx, "pipe-pane", "-t", "s", "cat >"+dir+"/bulk"); err != nil {
			return 0, err
		}
		defer func() { _ = call(context.Background(), "pipe-pane", "-t", "s") }()
		if _, err := s.run(ctx, command, 0); err != nil {
			return 0, err
		}
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			if info, err := os.Stat(dir + "/bulk"); err == nil && info.Size() >= bulkBytes {
				break
			}
		}
		return bulkBytes, ctx.Err()
	}
	return s
}

func dockerExec(f *fixture, _ string) *subject {
	docker := f.need("", "docker", "install the package docker.io")
	engine := dockertest.Shared(f)
	call := func(args ...string) []string { return append([]string{docker, "-H", engine.Host}, args...) }
	started, err := program(context.Background(), 0, call("run", "-d", "--rm", "-v", "/tmp:/tmp", "--entrypoint", "sleep", dockertest.Busybox, "100000")...)
	f.must(err)
	id := strings.TrimSpace(string(started.output))
	f.Cleanup(func() { _, _ = program(context.Background(), 0, call("rm", "-f", id)...) })
	return &subject{
		version: f.firstLine(docker, "-H", engine.Host, "version", "--format", "{{.Server.Version}}"),
		run: func(ctx context.Context, command string, limit time.Duration) (answer, error) {
			return program(ctx, limit, call("exec", id, "sh", "-c", command)...)
		},
		bulk: func(ctx context.Context, command string) (int, error) {
			return count(ctx, call("exec", id, "sh", "-c", command)...)
		},
		crash: func() {
			engine.Down(syscall.SIGKILL)
			f.must(engine.Up())
		},
	}
}

// ssh uses one connection for all commands, as a user who cares for latency does.
func ssh(f *fixture, _ string) *subject {
	path := f.need("", "ssh", "install the package openssh-client")
	server := sshdtest.Start(f, sshdtest.Options{Shell: "/bin/bash"})
	args := []string{path, "-F", "none", "-i", server.Identity(), "-o", "ControlPath=" + filepath.Join(server.Dir, "control")}
	for _, option := range server.ClientOptions() {
		args = append(args, "-o", option)
	}
	args = append(args, server.Destination())
	master := append([]string{path, "-M", "-N", "-f"}, args[1:]...)
	_, err := program(context.Background(), 0, master...)
	f.must(err)
	f.Cleanup(func() {
		_, _ = program(context.Background(), 0, append([]string{path, "-O", "exit"}, args[1:]...)...)
	})
	return &subject{
		version: f.firstLine(path, "-V"),
		run: func(ctx context.Context, command string, limit time.Duration) (answer, error) {
			return program(ctx, limit, append(args, command)...)
		},
		bulk:  func(ctx context.Context, command string) (int, error) { return count(ctx, append(args, command)...) },
		crash: server.Kill,
	}
}
