package isolation_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/internal/confine"
	"github.com/trl-dev/trl/internal/isolation"
	"github.com/trl-dev/trl/internal/process"
)

// asUsers calls f with a directory: as this user and, if this is root, as another one too.
func asUsers(t *testing.T, f func(t *testing.T, dir string)) {
	if dir := os.Getenv(envUser); dir != "" {
		f(t, dir)
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// A test of its own, at whose end its Reaper is closed: that would reap the program below.
	t.Run("self", func(t *testing.T) { f(t, dir) })
	if os.Geteuid() != 0 {
		return
	}
	t.Run("user", func(t *testing.T) {
		dir, err := os.MkdirTemp("/var/tmp", "trl-escape-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		program := copySelf(t, dir)
		home := dir + "/user"
		for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(home, 0o700), os.Chown(home, otherUser, otherUser)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		c := exec.Command(program, "-test.run=^"+filepath.Dir(t.Name())+"$", "-test.v")
		c.Dir = home
		c.Env = []string{envUser + "=" + home, "HOME=" + home, "PATH=/usr/bin:/bin", "TMPDIR=" + home}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
		out, err := c.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
	})
}

// world is an isolated session and what is around it.
type world struct {
	t      *testing.T
	reaper *process.Reaper
	isolation.Request
	plan isolation.Plan
}

// newWorld makes a home and the directories of a session, and plans its isolation.
func newWorld(t *testing.T, r isolation.Request) *world {
	t.Helper()
	for _, d := range []string{r.Home, r.WorkingDir, r.Private} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return newWorldIn(t, r)
}

// newWorldIn plans the isolation of a session whose directories are there.
func newWorldIn(t *testing.T, r isolation.Request) *world {
	t.Helper()
	w := &world{t: t, reaper: process.NewReaper(), Request: r}
	t.Cleanup(w.reaper.Close)
	w.Start, w.BestEffort = w.reaper.Start, true
	var err error
	if w.plan, err = isolation.NewPlan(w.Request); err != nil {
		t.Fatal(err)
	}
	return w
}

// run runs a script as a process of the session, and returns what it writes.
func (w *world) run(script string) (string, error) {
	w.t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		w.t.Fatal(err)
	}
	defer null.Close()
	out, theirs, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	p, err := confine.Start(w.reaper.Start, process.Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Dir: w.WorkingDir, Files: []*os.File{null, theirs, theirs},
		Env: append([]string{"PATH=/usr/bin:/bin", "HOME=" + w.Home}, w.plan.Env...),
	}, &confine.Confinement{Isolation: w.plan.Isolation})
	theirs.Close()
	text, readErr := io.ReadAll(out)
	if err == nil {
		<-p.Done()
		err = readErr
	}
	return string(text), err
}

// namespaces reports whether the plan has a tree of its own.
func (w *world) namespaces() bool { return len(w.plan.Isolation.View) > 0 }

// missing returns why an aspect is not enforced; empty if it is.
func (w *world) missing(aspect string) string {
	for _, u := range w.plan.Report.NotEnforced {
		if u.Aspect == aspect {
			return u.Reason
		}
	}
	return ""
}
