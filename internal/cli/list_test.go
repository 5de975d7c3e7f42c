package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// printed returns the output of print.
func printed(t *testing.T, print func(*ui.Printer)) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	print(ui.NewPrinter(f))
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEndEach: what could not be ended is an error and in no list, and the order is that of the
// names.
func TestEndEach(t *testing.T) {
	end := func(name string) (string, error) {
		if name == "bad" {
			return "", errors.New("bad: not found")
		}
		return strings.ToUpper(name), nil
	}
	for asJSON, want := range map[bool]string{false: "a A\nb B\n", true: `{"things":["A","B"]}` + "\n"} {
		got := printed(t, func(p *ui.Printer) {
			err := endEach(p, []string{"a", "bad", "b"}, end, func(name, r string) { p.Line(name + " " + r) }, "things", asJSON)
			if err == nil || err.Error() != "bad: not found" {
				t.Errorf("the error is %v", err)
			}
		})
		if got != want {
			t.Errorf("as JSON %v: prints %q, want %q", asJSON, got, want)
		}
	}
	got := printed(t, func(p *ui.Printer) {
		if err := endEach(p, nil, end, func(string, string) {}, "things", true); err != nil {
			t.Error(err)
		}
	})
	if got != `{"things":[]}`+"\n" {
		t.Errorf("without names, prints %q", got)
	}
}

// TestEndsCell: the table of sessions says why a session will end; the lines for programs keep their
// form.
func TestEndsCell(t *testing.T) {
	left := 90.0
	for why, want := range map[string]string{
		"idle for 10m0s (idle_timeout_s)":                                "in 1m30s, idle",
		"lived for 1h0m0s (lifetime_s)":                                  "in 1m30s, lifetime",
		"the daemon that owns it did not connect to it for owner_lost_s": "in 1m30s, owner lost",
		"the connection that owned it closed":                            "in 1m30s, owner gone",
		"something new":                                                  "in 1m30s",
	} {
		s := api.SessionInfo{EndsInS: &left, EndsWhy: why}
		if got := endsCell(s, true).Text; got != want {
			t.Errorf("%s: %q, want %q", why, got, want)
		}
		if got := endsCell(s, false).Text; got != "in 1m30s" {
			t.Errorf("%s, for a program: %q", why, got)
		}
	}
}

func TestEndsText(t *testing.T) {
	left := 3600.0
	for _, c := range []struct {
		kind      api.SessionKind
		why, want string
	}{
		{api.KindShell, "idle for 1h0m0s (idle_timeout_s)", "in 1h00m, if nothing runs until then (idle_timeout_s)"},
		{api.KindTerminal, "idle for 1h0m0s (idle_timeout_s)", "in 1h00m, if it stays idle until then (idle_timeout_s)"},
		{api.KindShell, "lived for 2h0m0s (lifetime_s)", "in 1h00m: lived for 2h0m0s (lifetime_s)"},
		{api.KindShell, "", "in 1h00m"},
	} {
		if got := endsText(api.SessionInfo{Kind: c.kind, EndsInS: &left, EndsWhy: c.why}); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.kind, c.why, got, c.want)
		}
	}
}

// TestListInANarrowWindow: in a window of 80 columns, a person sees when each session will end and
// why. Columns with less to say go, and the directory gets their room.
func TestListInANarrowWindow(t *testing.T) {
	left, at := 3599.0, time.Now().Add(-12*time.Minute)
	shell := api.SessionInfo{SessionID: "s-0123456789", Name: "build", Kind: api.KindShell, State: api.SessionIdle, Shell: "/usr/bin/bash",
		WorkingDir: "/home/someone/src/project", LastActivity: at, EndsInS: &left, EndsWhy: "idle for 1h0m0s (idle_timeout_s)"}
	terminal := api.SessionInfo{SessionID: "s-9876543210", Name: "ed", Kind: api.KindTerminal, State: api.SessionRunning, Command: []string{"vim", "notes"},
		WorkingDir: "/home/someone", LastActivity: at, Terminal: &api.TerminalInfo{Cols: 80, Rows: 24}}
	for _, list := range [][]api.SessionInfo{{shell}, {shell, terminal}, {shell, {SessionID: "s-1", Kind: api.KindProgram, State: api.SessionRunning, WorkingDir: "/"}}} {
		got := printed(t, func(p *ui.Printer) {
			p.TTY = true
			if err := (&app{Streams: ui.Streams{Stdout: p}}).printSessions(list); err != nil {
				t.Error(err)
			}
		})
		for line := range strings.Lines(got) {
			if n := ui.Columns([]byte(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("a line of %d columns: %s", n, line)
			}
		}
		for _, want := range []string{"NAME", "STATE", "ENDS", "DIRECTORY", "s-0123456789", "in 59m59s, idle", "/home/so"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing:\n%s", want, got)
			}
		}
		if strings.Contains(got, "TERMINAL") {
			t.Errorf("the size of the terminal took the room:\n%s", got)
		}
	}
}

func TestPrintList(t *testing.T) {
	for f, want := range map[listFlags]string{
		{}:                        "table of 2\n",
		{quiet: true}:             "id-1\nid-2\n",
		{json: true, quiet: true}: `{"all":true}` + "\n",
	} {
		got := printed(t, func(p *ui.Printer) {
			table := func(list []string) error {
				p.Linef("table of %d", len(list))
				return nil
			}
			if err := printList(p, f, map[string]bool{"all": true}, []string{"1", "2"}, func(s string) string { return "id-" + s }, table); err != nil {
				t.Error(err)
			}
		})
		if got != want {
			t.Errorf("%+v: prints %q, want %q", f, got, want)
		}
	}
}
