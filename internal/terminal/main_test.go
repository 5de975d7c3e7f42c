package terminal_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/terminal"
	"github.com/trl-dev/trl/internal/testkit"
)

// reaper is the one of this process.
var reaper *process.Reaper

func TestMain(m *testing.M) {
	process.Sanitize() // as the runner does: under nohup programs would ignore SIGHUP
	process.BecomeSubreaper()
	reaper = process.NewReaper()
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // the reaper stays
}

// tty is a terminal under test.
type tty struct {
	*terminal.Terminal
	t   *testing.T
	log *output.Log
}

// start starts a program on a terminal of 80x24, after the changes to the configuration.
// At the end nothing may be left of it.
func start(t *testing.T, args []string, changes ...func(*terminal.Config)) *tty {
	t.Helper()
	path, err := lookPath(args[0])
	if err != nil {
		t.Skip("NOT TESTED:", err)
	}
	files := openFiles()
	log := output.New(output.NewStore(output.StoreConfig{}), 4<<20)
	c := terminal.Config{
		Name: `session "s-1"`, Path: path, Args: args, Dir: t.TempDir(), Cols: 80, Rows: 24, Scrollback: 10_000, Version: "1.2.3", Log: log, MaxInput: 1 << 20,
		Env:   []string{"PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "HOME=" + t.TempDir(), "LANG=C.UTF-8", "LC_ALL=C.UTF-8"},
		Start: reaper.Start,
		Warn:  func(err error) { t.Errorf("warning: %v", err) },
	}
	for _, change := range changes {
		change(&c)
	}
	term, err := terminal.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	tt := &tty{Terminal: term, t: t, log: log}
	t.Cleanup(func() {
		term.Close()
		process.KillAll(process.Descendants(os.Getpid(), nil), syscall.SIGKILL, 0)
		testkit.Eventually(t, "no process is left", func() bool { return len(process.Children(os.Getpid())) == 0 })
		if now := openFiles(); now != files {
			t.Errorf("%d files are open, before it were %d", now, files)
		}
	})
	return tt
}

// sh starts a script.
func sh(t *testing.T, script string, changes ...func(*terminal.Config)) *tty {
	t.Helper()
	return start(t, []string{"sh", "-c", script}, changes...)
}

// python starts a script of python, with what most of them need.
func python(t *testing.T, script string, changes ...func(*terminal.Config)) *tty {
	t.Helper()
	return start(t, []string{"python3", "-c", "import os, sys, signal, time, tty\ndef say(b): os.write(1, b)\n" + script}, changes...)
}

func lookPath(name string) (string, error) {
	for _, dir := range strings.Split(os.Getenv("PATH"), ":") {
		if st, err := os.Stat(dir + "/" + name); err == nil && st.Mode()&0o111 != 0 && !st.IsDir() {
			return dir + "/" + name, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

func openFiles() int {
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

// patience is how long anything may take before a test fails.
func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// wait waits and fails unless the reason is that.
func (t *tty) wait(p api.SessionWaitParams, reason string) api.SessionWaitResult {
	t.t.Helper()
	res, err := t.Wait(patience(t.t), p)
	if err != nil || res.Reason != reason {
		t.t.Fatalf("wait: %q %v, not %q; the screen:\n%s", res.Reason, err, reason, tail(t.text()))
	}
	return res
}

// see waits until a line matches.
func (t *tty) see(pattern string) api.SessionWaitResult {
	t.t.Helper()
	return t.wait(api.SessionWaitParams{Text: pattern}, api.WaitText)
}

// end waits for the end of the program.
func (t *tty) end() process.Exit {
	t.t.Helper()
	select {
	case <-t.Done():
	case <-patience(t.t).Done():
		t.t.Fatalf("it does not end; the screen:\n%s", t.text())
	}
	return t.Process().Exit()
}

func (t *tty) text() string { return t.Screen(api.SessionScreenParams{}).Text }

// lines are the rows of the screen, empty ones at the end left out.
func (t *tty) lines() []string {
	return strings.Split(strings.TrimRight(t.text(), "\n"), "\n")
}

func (t *tty) input(p link.SessionInputParams, text string) api.SessionInputResult {
	t.t.Helper()
	res, err := t.Input(patience(t.t), p, []byte(text))
	if err != nil {
		t.t.Fatal(err)
	}
	return res
}

func (t *tty) typeText(text string) { t.t.Helper(); t.input(link.SessionInputParams{}, text) }
func (t *tty) press(keys ...string) { t.t.Helper(); t.input(link.SessionInputParams{Keys: keys}, "") }
func (t *tty) snapshot() (link.SnapshotResult, []byte) {
	t.t.Helper()
	res, data, err := t.Snapshot(patience(t.t), -1)
	if err != nil {
		t.t.Fatal(err)
	}
	return res, data
}

func ptr[T any](v T) *T { return &v }

func code(err error) api.Code {
	if e, ok := err.(*api.Error); ok {
		return e.Code
	}
	return ""
}
