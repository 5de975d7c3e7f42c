package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runners"
)

// directories are where the runner is looked for and copied to in a pod that TRL did not make.
var directories = []string{"/run/trl-runner", "/var/tmp/trl-runner", "/tmp/trl-runner", "/dev/shm/trl-runner"}

// The scripts get the name of the runner's file as $0, and the directories as arguments. A directory
// that belongs to another user is not used, because that user could replace the runner.
const (
	// findScript prints the system, and the path of the runner if it is there.
	findScript = `uname -sm; for d; do { [ -O "$d" ] || [ "$d" = ` + op.RunnerDir + ` ]; } && [ -x "$d/$0" ] && echo "$d/$0" && exit 0; done; exit 0`
	// copyScript copies its stdin into the first directory in which a program can be started, makes
	// the copy check its own content, and prints its path. It reads its stdin to the end also when it
	// fails: the connection of a program that ends before has no exit status, but times out.
	copyScript = `sum=$1; shift; umask 077
for d; do
  [ -d "$d" ] || mkdir "$d" 2>/dev/null || continue
  [ -O "$d" ] || [ "$d" = ` + op.RunnerDir + ` ] || continue
  t="$d/.$0.$$"
  { printf '#!/bin/sh\nexit 0\n' >"$t" && chmod 755 "$t" && "$t"; } 2>/dev/null || { rm -f "$t"; rmdir "$d"; continue; } 2>/dev/null
  cat >"$t" && "$t" check "$sum" >/dev/null && mv -f "$t" "$d/$0" && echo "$d/$0" && exit 0
  rm -f "$t"; rmdir "$d" 2>/dev/null; cat >/dev/null; exit 1
done
echo "no directory is writable and allows programs to be started; looked at $*" >&2; cat >/dev/null; exit 1`
)

// Install copies the runner into the pod, unless it is there.
func (s *site) Install(ctx context.Context, progress func(api.PlaceProgress)) (string, error) {
	r := s.record()
	if r.HasRunner {
		return op.Runner, nil
	}
	if !r.Pod.Made {
		return s.install(ctx, directories, progress)
	}
	return s.install(ctx, []string{op.RunnerDir}, progress)
}

func (s *site) install(ctx context.Context, dirs []string, progress func(api.PlaceProgress)) (string, error) {
	pod := s.record().Pod
	program, err := runners.Program{}, error(nil)
	if pod.OS != "" && pod.Arch != "" {
		if program, err = runners.Find(pod.OS, pod.Arch); err != nil {
			return "", err
		}
	}
	for {
		name := program.SHA256
		if pod.Made {
			name = path.Base(op.Runner)
		} else if name != "" {
			name = program.FileName()
		}
		out, err := s.run(ctx, nil, append([]string{findScript, name}, dirs...)...)
		if err != nil {
			return "", err
		}
		system, found, _ := strings.Cut(out, "\n")
		if name != "" && found != "" {
			return found, nil
		}
		if program.SHA256 != "" {
			break
		}
		// The cluster did not tell the architecture, so the pod does.
		if pod.OS, pod.Arch, err = platform(system); err != nil {
			return "", err
		}
		if program, err = runners.Find(pod.OS, pod.Arch); err != nil {
			return "", err
		}
		s.mu.Lock()
		s.rec.Pod.OS, s.rec.Pod.Arch = pod.OS, pod.Arch
		s.mu.Unlock()
	}
	content, err := program.Open()
	if err != nil {
		return "", err
	}
	defer content.Close()
	name := program.FileName()
	if pod.Made {
		name = path.Base(op.Runner)
	}
	count := &counter{r: content, total: program.Size, report: func(done int64) {
		progress(api.PlaceProgress{Step: "upload", Message: "copying the runner to pod " + pod.Name, Done: done, Total: program.Size})
	}}
	return s.run(ctx, count, append([]string{copyScript, name, program.SHA256}, dirs...)...)
}

// run runs a script in the pod and returns what it prints.
func (s *site) run(ctx context.Context, stdin io.Reader, script ...string) (string, error) {
	p, err := s.Exec(ctx, append([]string{"/bin/sh", "-c"}, script...))
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { p.Close() })
	defer stop()
	if stdin != nil {
		_, err = io.Copy(p, stdin)
	}
	if closeErr := p.CloseWrite(); err == nil {
		err = closeErr
	}
	out, readErr := io.ReadAll(io.LimitReader(p, 64<<10))
	p.Close()
	exit, waitErr := p.Wait()
	pod := s.record().Pod.Name
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case waitErr == nil && exit.Status != 0 || waitErr != nil && noShell(waitErr):
		why := strings.TrimSpace(exit.Stderr)
		if waitErr != nil || exit.Status == 126 || exit.Status == 127 {
			why = "the container has no /bin/sh, with which TRL copies its runner; set the option runner_image"
		}
		return "", api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: pod %s: %s", pod, why)
	case waitErr != nil:
		return "", waitErr
	case err != nil:
		return "", err
	case readErr != nil:
		return "", readErr
	}
	return string(bytes.TrimSpace(out)), nil
}

// noShell reports whether the container runtime did not find the shell.
func noShell(err error) bool {
	return strings.Contains(err.Error(), "/bin/sh") || strings.Contains(err.Error(), "executable file not found")
}

// platform reads what uname -sm prints.
func platform(text string) (goos, goarch string, err error) {
	system, machine, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch machine {
	case "":
		return "", "", api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: the system of the pod is unknown: uname prints %.80q", text)
	case "x86_64":
		machine = "amd64"
	case "aarch64":
		machine = "arm64"
	}
	return strings.ToLower(system), machine, nil
}

// counter reports how much of a copy is done, at most a hundred times.
type counter struct {
	r           io.Reader
	total, done int64
	said        int64
	report      func(done int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.done += int64(n)
	if step := c.total/100 + 1; n > 0 && (c.done-c.said >= step || c.done == c.total) {
		c.said = c.done
		c.report(c.done)
	}
	return n, err
}

var _ remote.Site = (*site)(nil)

// String names the container in logs.
func (s *site) String() string {
	r := s.record()
	return fmt.Sprintf("pod %s/%s container %s", r.Pod.Namespace, r.Pod.Name, r.Pod.Container)
}
