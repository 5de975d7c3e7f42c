package trltest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
)

// markerVar is in the environment of a daemon, and of everything in its sessions
// that did not clear it. Its value is the directory of the daemon.
const markerVar = "TRLTEST_DAEMON"

// settle is how long processes that are just exiting may take to be gone. It
// bounds a wait on them, not a sleep.
const settle = time.Second

type process struct {
	pid  int
	text string
}

func (p process) String() string { return fmt.Sprintf("pid %d: %s", p.pid, p.text) }

// left returns the processes that belong to the daemon's sessions and do not go
// away: those that carry one of the ids, or the daemon's marker.
func (d *Daemon) left(ids []string) []process {
	marks := map[string]bool{markerVar + "=" + d.root: true}
	for _, id := range ids {
		marks[api.SessionMarker+"="+id] = true
	}
	var list []process
	end := time.Now().Add(settle)
	for _, p := range carriers(marks) {
		if p.pid != os.Getpid() && (p.pid != d.PID || !d.running()) && !gone(p.pid, time.Until(end)) {
			list = append(list, p)
		}
	}
	return list
}

var (
	fault    = regexp.MustCompile(`(?m)^(panic: |fatal error: |unexpected fault address|\[signal SIG)|panicked`)
	raceText = "WARNING: DATA RACE"
)

// checkFaults fails the test when the daemon or a runner had a data race or a panic.
func (d *Daemon) checkFaults(t testing.TB) {
	t.Helper()
	races, _ := filepath.Glob(filepath.Join(d.root, "race.*"))
	for _, f := range races {
		text, _ := os.ReadFile(f)
		t.Errorf("trltest: data race in the daemon:\n%s", text)
	}
	d.checkText(t, "stderr", d.Stderr())
	// Runners that have no stderr of the daemon may write a log beside their records.
	for _, dir := range []string{d.StateDir, d.RuntimeDir} {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && strings.HasSuffix(path, ".log") {
				text, _ := os.ReadFile(path)
				d.checkText(t, path, string(text))
			}
			return nil
		})
	}
	if d.killed || d.opts.dirty {
		return
	}
	if d.state != nil && !d.state.Success() {
		t.Errorf("trltest: the daemon ended with %s", d.state)
	}
}

func (d *Daemon) checkText(t testing.TB, where, text string) {
	t.Helper()
	if at := strings.Index(text, raceText); at >= 0 {
		t.Errorf("trltest: %s: data race:\n%s", where, tail(text[at:], 16<<10))
	}
	if at := fault.FindStringIndex(text); at != nil && !d.quit() {
		end := min(len(text), at[0]+16<<10)
		t.Errorf("trltest: %s: panic:\n%s", where, text[at[0]:end])
	}
}

// quit reports whether the daemon was ended by SIGQUIT, whose text looks like a panic.
func (d *Daemon) quit() bool {
	if d.state == nil {
		return false
	}
	ws, ok := d.state.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGQUIT
}
