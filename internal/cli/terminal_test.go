package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// TestEndFlags: flags after the program of `trl new -t NAME PROGRAM` are the program's.
func TestEndFlags(t *testing.T) {
	for in, want := range map[string]string{
		"new":                                  "new",
		"new build":                            "new build",
		"new build --shell bash":               "new build --shell bash",
		"new --shell bash build":               "new --shell bash build",
		"new -t ed vim -R x":                   "new -t ed -- vim -R x",
		"new ed -t vim -d":                     "new ed -t -- vim -d",
		"new -te A=1 ed vim -d":                "new -te A=1 ed -- vim -d",
		"new -teA=1 ed vim -d":                 "new -teA=1 ed -- vim -d",
		"new -t -e A --cols=3 --rows 4 a b -c": "new -t -e A --cols=3 --rows 4 a -- b -c",
		"--socket new new -t a b -c":           "--socket new new -t a -- b -c",
		"new -t -- vim -R":                     "new -t -- vim -R",
		"new -t a -- vim -R":                   "new -t a -- vim -R",
		"new -t a - -x":                        "new -t a -- - -x",
		"run -s new a b -c":                    "run -s new a b -c",
		"nosuch new a b -c":                    "nosuch new a b -c",
	} {
		a := &app{Streams: ui.Streams{Stdout: &ui.Printer{}, Stderr: &ui.Printer{}}}
		if got := endFlags(a.root(nil), strings.Fields(in)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestKeyName(t *testing.T) {
	for word, want := range map[string]string{
		"enter": "enter", "Enter": "Enter", "ctrl-c": "ctrl-c", "C-c": "ctrl-c", "M-x": "alt-x", "C-M-x": "ctrl-alt-x", "S-Tab": "shift-Tab",
		"F5": "F5", "BSpace": "backspace", "PPage": "pageup", "ctrl-shift-up": "ctrl-shift-up", "alt-enter": "alt-enter", `ctrl-\`: `ctrl-\`,
		"": "", "a": "", "é": "", "ls": "", "up the hill": "", "ctrl-": "", "C-": "", "c-c": "", "X-c": "", "ctrl-nosuch": "", ":wq": "", "-l": "", "f25": "",
		"ctrl-alt-shift-ctrl-alt-shift-pagedown": "", // longer than a key's name can be
	} {
		if got, ok := keyName(word); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v, want %q", word, got, ok, want)
		}
	}
}

func TestCursorFlag(t *testing.T) {
	for in, want := range map[string][2]int{"3,4": {3, 4}, "3,": {3, -1}, ",4": {-1, 4}, "0,0": {0, 0}} {
		var f cursorFlag
		if err := f.Set(in); err != nil {
			t.Errorf("Set(%q): %s", in, err)
			continue
		}
		got := [2]int{-1, -1}
		if f.at.X != nil {
			got[0] = *f.at.X
		}
		if f.at.Y != nil {
			got[1] = *f.at.Y
		}
		if got != want {
			t.Errorf("Set(%q): %v, want %v", in, got, want)
		}
	}
	for _, in := range []string{"", ",", "3", "a,b", "-1,2", "1,2,3"} {
		if err := new(cursorFlag).Set(in); err == nil {
			t.Errorf("Set(%q): no error", in)
		}
	}
}

func TestWhatSaysSomethingAboutAnotherTerminal(t *testing.T) {
	for _, key := range []string{"TERM", "COLUMNS", "TMUX", "TERM_PROGRAM_VERSION", "KITTY_WINDOW_ID"} {
		if !ofAnotherTerminal(key) {
			t.Errorf("%s stays", key)
		}
	}
	for _, key := range []string{"HOME", "LANG", "LC_ALL", "EDITOR", "TERMITE"} {
		if ofAnotherTerminal(key) {
			t.Errorf("%s goes", key)
		}
	}
}
