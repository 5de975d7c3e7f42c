package cli_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTopFitsTheWindow: no line of trl top is wider than the terminal, so that none is wrapped.
func TestTopFitsTheWindow(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	name := strings.Repeat("long-name-", 4)
	for _, args := range [][]string{
		{"-s", name, "sleep 1001 # " + strings.Repeat("and so on, ", 20)},
		{"-s", "a", "sleep 1001 # " + strings.Repeat("ein ä, ", 20)},
	} {
		if o := s.run(t, append([]string{"start"}, args...)...); o.status != 0 {
			t.Fatalf("%+v", o)
		}
	}
	control := regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)
	for _, c := range []struct {
		cols int
		head string // the columns that have room
	}{
		{40, "SESSION CPU% MEMORY"},
		{60, "SESSION CPU% MEMORY PROCS"},
		{200, "SESSION CPU% MEMORY PROCS READ WRITTEN COMMAND"},
	} {
		for _, term := range []string{"xterm", "dumb"} {
			cmd := s.command("/bin/sh", "-c", fmt.Sprintf("stty cols %d; trl top --once --interval 0.1", c.cols))
			cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "TERM="+term)
			text, status := s.onTerminal(t, cmd).all(t)
			lines := strings.Split(strings.TrimSuffix(control.ReplaceAllString(text, ""), "\n"), "\n")
			if status != 0 || len(lines) != 3 {
				t.Errorf("%d columns, %s: status %d\n%s", c.cols, term, status, text)
			}
			for _, l := range lines {
				if n := utf8.RuneCountInString(l); n > c.cols {
					t.Errorf("%d columns, %s: a line of %d: %q", c.cols, term, n, l)
				}
			}
			if got := strings.Join(strings.Fields(lines[0]), " "); !strings.HasPrefix(got, c.head) {
				t.Errorf("%d columns, %s: the header is %q, want %q", c.cols, term, got, c.head)
			}
			if strings.Contains(text, "\x1b[J") != (term == "xterm") {
				t.Errorf("%d columns, %s: prints %q", c.cols, term, text)
			}
		}
	}
}
