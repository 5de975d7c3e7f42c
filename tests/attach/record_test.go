package attach_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/terminal/cast"
	"github.com/trl-dev/trl/internal/terminal/vt"
	"github.com/trl-dev/trl/tests/trltest"
)

// readCast reads a recording.
func readCast(t *testing.T, name string) (cast.Header, []cast.Event) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := cast.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var events []cast.Event
	for {
		e, err := r.Next()
		if err != nil {
			return r.Header(), events
		}
		events = append(events, e)
	}
}

// TestRecordPlayExport goes round once: what was recorded plays as it was.
func TestRecordPlayExport(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a := p.sit(t, 80, 24, p.trl, "record", "-o", "demo.cast", "--name", "rec", "--", "sh")
	a.see(`^\$`)
	a.press("echo \"hello wörld\"\r")
	a.see(`^(\$ )?hello wörld$`)
	a.resize(100, 30)
	a.until("the size is followed", func(*vt.Terminal) bool { return p.info(t, "rec").Terminal.Cols == 100 })
	a.press("stty size\r")
	a.see(`^(\$ )?30 100$`)
	if info := p.info(t, "rec"); info.Terminal.Recording == nil || info.Terminal.Recording.Input {
		t.Errorf("%+v", info.Terminal.Recording)
	}
	a.press("exit 4\r")
	if status := a.left(); status != 4 {
		t.Errorf("status %d", status)
	}
	a.see(`trl: recorded to demo.cast`)
	a.clean()

	name := filepath.Join(p.work, "demo.cast")
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	h, events := readCast(t, name)
	codes := ""
	for _, e := range events {
		codes += e.Code
	}
	if h.Version != 3 || h.Cols != 80 || h.Rows != 24 || h.Command != "sh" || !strings.Contains(codes, "r") || strings.Contains(codes, "i") || !strings.HasSuffix(codes, "x") {
		t.Errorf("%+v, events %s", h, codes)
	}

	// The file and the session give the same screen, in every way.
	last := p.run(t, "screen", "rec")
	for _, word := range []string{"rec", "demo.cast"} {
		if got := p.run(t, "export", word, "--text"); got != last {
			t.Errorf("%s: %q, want %q", word, got, last)
		}
		for _, format := range []string{"html", "svg"} {
			p.run(t, "export", word, "-o", "out."+format)
			b, err := os.ReadFile(filepath.Join(p.work, "out."+format))
			if err != nil || !strings.Contains(string(b), "wörld") {
				t.Errorf("%s as %s: %v\n%s", word, format, err, b)
			}
		}
	}
	p.run(t, "export", "rec", "-o", "again.cast")
	p.run(t, "export", "demo.cast", "-o", "third.cast")
	first, _ := os.ReadFile(name)
	for _, other := range []string{"again.cast", "third.cast"} {
		_, same := readCast(t, filepath.Join(p.work, other))
		if b, _ := os.ReadFile(filepath.Join(p.work, other)); other == "again.cast" && string(b) != string(first) || len(same) != len(events) {
			t.Errorf("%s: %d events, want %d", other, len(same), len(events))
		}
	}

	// Without a terminal, playing prints the bytes; on a terminal it shows the screen.
	var all string
	for _, e := range events {
		if e.Code == cast.Output {
			all += e.Data
		}
	}
	if got := p.run(t, "play", "demo.cast"); got != all {
		t.Errorf("%q, want %q", got, all)
	}
	for _, size := range [][2]int{{80, 24}, {120, 40}, {50, 10}} {
		b := p.sit(t, size[0], size[1], p.trl, "play", "demo.cast", "--idle-limit", "0.05", "--speed", "4")
		b.see(`^30 100$`)
		if status := b.left(); status != 0 {
			t.Errorf("status %d", status)
		}
		b.see(`^hello wörld$`)
		b.clean()
	}
	c := p.sit(t, 80, 24, p.trl, "play", "rec")
	c.entered()
	c.press(" q")
	if status := c.left(); status != 0 {
		t.Errorf("status %d", status)
	}
	c.clean()
}

// TestRecordWhereNobodySits: a script can record too, and what is typed when asked for.
func TestRecordWhereNobodySits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cmd := exec.Command(p.trl, "record", "-o", "-", "--", "sh", "-c", "echo recorded; exit 6")
	cmd.Dir, cmd.Env = p.work, p.env
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 6 || !strings.Contains(string(out), `"o", "recorded\r\n"]`) {
		t.Errorf("%v\n%s", err, out)
	}
	p.run(t, "new", "-t", "-d", "--record-input", "typed", "--", "sh", "-c", "read x; echo got $x")
	p.run(t, "send", "typed", "sécret", "enter")
	p.run(t, "wait", "typed")
	if got := p.run(t, "export", "typed", "--cast"); !strings.Contains(got, `"i", "sécret`) || !strings.Contains(got, `got sécret`) {
		t.Errorf("%s", got)
	}
}

// TestRecordingThatIsFull: trl reports that the recording stopped, and keeps the program's status.
func TestRecordingThatIsFull(t *testing.T) {
	t.Parallel()
	p := newPlace(t, trltest.Env("TRL_RECORDING_BYTES=2000"))
	cmd := exec.Command(p.trl, "record", "-o", "full.cast", "--", "sh", "-c", "yes | head -n 2000; exit 6")
	cmd.Dir, cmd.Env = p.work, p.env
	out, err := cmd.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 6 || !strings.Contains(string(out), "trl: recording stopped: it has reached recording_bytes (2000)") {
		t.Errorf("%v\n%s", err, out)
	}
}
