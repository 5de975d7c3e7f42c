package mcp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// needs skips a test where a program is not installed, but not in CI.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func TestTerminalShell(t *testing.T) {
	p := connect(t, 0)
	p.refuses("terminal_type", map[string]any{"text": "x"}, "SESSION_NOT_FOUND: there is no terminal yet")
	p.does("run", map[string]any{"command": "cd /usr"}, `.*`)
	m := p.does("terminal_start", map[string]any{"command": "sh", "env": map[string]string{"PS1": "$ "}, "cols": 40, "rows": 8},
		`\$\n\[terminal (s-\S+), 40x8, cursor at line 1 column 3\]`)
	id := m[1]
	p.does("terminal_type", map[string]any{"text": "pwd; stty size\n"}, `\$ pwd; stty size\n/usr\n8 40\n\$\n\[terminal .*, cursor at line 4 column 3\]`)
	p.does("terminal_type", map[string]any{"text": "clear; sleep 0.5; echo a''wake", "keys": []string{"enter"}, "match": "^awake"}, `awake\n.*; matched: awake\]`)
	p.does("terminal_type", map[string]any{"text": "clear; exec cat\n"}, `\[terminal .*`)
	p.does("terminal_type", map[string]any{"paste": "some text", "keys": []string{"enter"}}, `some text\nsome text\n\[terminal .*`)
	p.does("terminal_type", map[string]any{"keys": []string{"ctrl-d"}}, `.*text\n\[terminal .*; the program has ended with exit code 0\]`)
	p.does("terminal_screen", map[string]any{"session": id}, `.*text\n\[terminal .*; the program has ended with exit code 0\]`)
	p.refuses("terminal_type", map[string]any{"text": "x"}, "SESSION_TERMINATED")
	p.refuses("terminal_type", map[string]any{"session": "nobody", "text": "x"}, "SESSION_NOT_FOUND")
	p.refuses("terminal_start", map[string]any{"cols": -1}, "INVALID_PARAMS")
}

func TestTerminalScrollback(t *testing.T) {
	p := connect(t, 0)
	p.does("terminal_start", map[string]any{"command": "sleep 1; seq 1 5000; read x", "rows": 4}, `4998\n4999\n5000\n\[.*`)
	p.does("terminal_screen", map[string]any{"scrollback": 2}, `4996\n4997\n4998\n4999\n5000\n\[.*`)
	p.does("terminal_screen", map[string]any{"scrollback": 5000}, `\[[\d,]+ bytes above left out\]\n\d+\n.*\n4999\n5000\n\[.*`)
	p.refuses("terminal_type", map[string]any{"keys": []string{"hyper-q"}}, "INVALID_PARAMS")
	p.does("list", nil, `s-\S+ running terminal /bin/sh -c sleep 1; seq 1 5000; read x in .*`)
	p.does("terminal_type", map[string]any{"keys": []string{"ctrl-c"}}, `.*; the program has ended.*`)
}

// TestTerminalPatience: a tool also returns a screen that never rests, or that never matches.
func TestTerminalPatience(t *testing.T) {
	testkit.Long(t)
	p := connect(t, 700*time.Millisecond)
	patient := serve(t, 0, p.service)
	p.does("terminal_start", map[string]any{"command": "while :; do i=$((i+1)); echo $i; done", "session": "clock"}, `.*`)
	patient.does("terminal_screen", map[string]any{"session": "clock", "match": `^\d{3}`}, `.*; matched: \d{3}\S*]`)
	p.does("terminal_screen", map[string]any{"match": "never"}, `.*; nothing matched in \S+: look again with terminal_screen\]`)
	p.does("terminal_screen", map[string]any{"session": "clock", "timeout_s": 0.1, "idle_s": 1}, `.*; still changing after \S+\]`)
	p.does("destroy", map[string]any{"session": "clock"}, `ended s-.*`)
	p.does("terminal_screen", nil, `.*; the program has ended.*`)
	p.does("terminal_start", map[string]any{"session": "mine"}, `.*`)
	patient.does("terminal_type", map[string]any{"session": "mine", "text": "echo rea''dy\n", "match": "^ready"}, `.*; matched: ready\]`)
	serve(t, 5*time.Second, p.service).does("terminal_type", map[string]any{"session": "mine", "text": "sleep 77\n"}, `.*; busy: it does not wait for input; look again with terminal_screen\]`)
	p.does("terminal_start", map[string]any{"command": "cat"}, `.*`)
	p.closed()
	p.alone("mine")
}

// TestTerminalEditor: a model can write a file with vim.
func TestTerminalEditor(t *testing.T) {
	needs(t, "vim")
	p := connect(t, 0)
	file := filepath.Join(t.TempDir(), "the poem.txt")
	p.does("terminal_start", map[string]any{"command": `vim -u NONE -N --cmd 'set ttimeout ttimeoutlen=50' "` + file + `"`}, `\n~\n.*`)
	p.does("terminal_type", map[string]any{"text": "iRoses are red\nviolets are blue", "keys": []string{"esc"}}, `Roses are red\nviolets are blue\n~.*cursor at line 2 column 16.*`)
	p.does("terminal_type", map[string]any{"keys": []string{"up", "home", "x", "i", "r", "esc"}}, `roses are red\nviolets.*`)
	p.does("terminal_type", map[string]any{"text": ":wq\n"}, `.*; the program has ended with exit code 0\]`)
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "roses are red\nviolets are blue\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestTerminalPython: a model can talk with an interpreter, interrupt it, and end it.
func TestTerminalPython(t *testing.T) {
	needs(t, "python3")
	p := connect(t, 0)
	p.does("terminal_start", map[string]any{"command": "python3 -q", "env": map[string]string{"PYTHON_BASIC_REPL": "1"}}, `>>>\n\[.*`)
	p.does("terminal_type", map[string]any{"text": "6 * 7\n", "match": "^42$"}, `>>> 6 \* 7\n42\n.*; matched: 42\]`)
	p.does("terminal_type", map[string]any{"text": "import time; print('a' + 'sleep', flush=True); time.sleep(1000)\n", "match": "^asleep"}, `.*\nasleep\n\[.*`)
	p.does("terminal_type", map[string]any{"keys": []string{"ctrl-c"}, "match": "^KeyboardInterrupt"}, `.*; matched: KeyboardInterrupt\]`)
	p.does("terminal_type", map[string]any{"text": "exit(7)\n", "match": "never"}, `.*; the program has ended with exit code 7\]`)
}

// TestTerminalIsNoShell: the error of a tool for the wrong kind of session names the right tool.
func TestTerminalIsNoShell(t *testing.T) {
	p := connect(t, 0)
	p.does("terminal_start", map[string]any{"command": "cat", "session": "term"}, `.*`)
	p.refuses("run", map[string]any{"command": "true", "session": "term"}, "INVALID_PARAMS")
	p.does("run", map[string]any{"command": "true", "session": "shell"}, `.*`)
	p.refuses("terminal_type", map[string]any{"text": "x", "session": "shell"}, "INVALID_PARAMS")
	info, err := p.service.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: "term"})
	if err != nil || info.Kind != api.KindTerminal || info.Ephemeral {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestTerminalWords: a program with plain arguments is started without a shell, and has its
// environment.
func TestTerminalWords(t *testing.T) {
	p := connect(t, 0)
	p.does("terminal_start", map[string]any{"command": "sh", "env": map[string]string{"PS1": "me> "}}, `me>\n\[.*`)
	// This one shows nothing, so the call takes all its time.
	connect(t, 200*time.Millisecond).does("terminal_start", map[string]any{"command": "  tail -n 1 -f /dev/null "}, `\[terminal .*`)
	p.does("terminal_start", map[string]any{"command": "echo $((1+1)) a=b; read x"}, `2 a=b\n\[.*`)
	p.refuses("terminal_start", map[string]any{"command": "nosuchprogram -x"}, "nosuchprogram")
}
