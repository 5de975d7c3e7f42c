package attach_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/testkit"
)

// tmux is a tmux server of its own with one window, in which a shell runs.
type tmux struct {
	t *testing.T
	p *place
}

func (p *place) tmux(t *testing.T) *tmux {
	t.Helper()
	need(t, "tmux")
	conf := filepath.Join(p.work, "tmux.conf")
	if err := os.WriteFile(conf, []byte("set -g status off\nset -g default-terminal tmux-256color\nset -g history-limit 5000\nset -sg escape-time 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &tmux{t, p}
	m.run("-f", conf, "new-session", "-d", "-x", "100", "-y", "30", "-c", p.work, "sh")
	t.Cleanup(func() { m.run("kill-server") })
	return m
}

func (m *tmux) run(args ...string) string {
	m.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", filepath.Join(m.p.work, "tmux.sock")}, args...)...)
	cmd.Dir, cmd.Env = m.p.work, m.p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %q: %s\n%s", args, err, out)
	}
	return string(out)
}

func (m *tmux) send(keys ...string) { m.run(append([]string{"send-keys"}, keys...)...) }

func (m *tmux) text() string { return strings.TrimRight(m.run("capture-pane", "-p"), "\n") }

// see waits until the window matches. tmux does not announce what it shows.
func (m *tmux) see(pattern string) {
	m.t.Helper()
	re := regexp.MustCompile(`(?m)` + pattern)
	m.until(pattern, func(text string) bool { return re.MatchString(text) })
}

func (m *tmux) until(what string, holds func(text string) bool) {
	m.t.Helper()
	testkit.EventuallyNoProblem(m.t, func() string {
		text := m.text()
		if holds(text) {
			return ""
		}
		return fmt.Sprintf("not true: %s; tmux shows\n%s", what, text)
	})
}

// same waits until tmux shows what the session shows.
func (m *tmux) same(name string) {
	m.t.Helper()
	var text string
	m.until("tmux shows what the session shows", func(shown string) bool {
		text = m.p.screenOf(m.t, name).Text
		var lines []string
		for _, line := range strings.Split(shown, "\n") {
			lines = append(lines, strings.TrimRight(line, " "))
		}
		return strings.Join(lines, "\n") == strings.TrimRight(text, "\n")
	})
}

// TestInsideTmux: attach, type, resize, detach, attach again, in a shell and in an editor.
func TestInsideTmux(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	m := p.tmux(t)
	m.see(`^\$`)
	m.send("trl new -t sh", "Enter")
	m.until("the session is shown", func(text string) bool { return text == "$" })
	m.send("echo in-$((40+2))", "Enter")
	m.see(`^in-42\n\$\z`)
	m.send("stty size", "Enter")
	m.see(`^30 100\n\$\z`)
	m.run("resize-window", "-x", "90", "-y", "25")
	m.until("the size is followed", func(string) bool {
		info := p.info(t, "sh")
		return info.Terminal.Cols == 90 && info.Terminal.Rows == 25
	})
	m.same("sh")
	m.send("stty size", "Enter")
	m.see(`^25 90\n\$\z`)
	m.same("sh")

	m.send("C-\\")
	m.see(`^trl: sh: detached; it keeps running\n\$\z`)
	m.send("echo out-$((1+1))", "Enter")
	m.see(`(?s)detached; it keeps running\n\$ echo.*\nout-2$`)

	m.send("clear; trl attach sh", "Enter")
	m.see(`^25 90\n\$\z`)
	m.same("sh")
	if need := exec.Command("vim", "--version"); need.Run() != nil {
		t.Skip("NOT TESTED: vim is not installed")
	}
	m.send("vim -u NONE -N", "Enter")
	m.see(`^~`)
	m.send("ihello from vim", "Escape")
	m.see(`^hello from vim`)
	m.same("sh")
	m.send("C-\\")
	m.see(`^trl: sh: detached; it keeps running\n\$\z`)
	m.until("nothing of the editor is left", func(text string) bool { return !strings.Contains(text, "~") })
	m.send("clear; trl attach sh", "Enter")
	m.see(`^hello from vim`)
	m.same("sh")
	m.send(":q!", "Enter")
	m.see(`(?s)^25 90.*\$$`)
	m.same("sh")
	m.send("exit 7", "Enter")
	m.see(`^trl: sh: the program exited with status 7\n\$\z`)
	m.send("echo status-$?", "Enter")
	m.see(`^status-7$`)
}
