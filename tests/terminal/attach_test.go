package terminal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestAttach sees a snapshot, what is typed, and the end.
func TestAttach(t *testing.T) {
	w := start(t)
	info := w.terminal("a", "sh", "-c", `echo ready; read x; echo "got $x"; exit 3`)
	if info.State != api.SessionRunning || info.Kind != api.KindTerminal || info.Terminal == nil || info.Terminal.Cols != 80 || info.ExecID == "" {
		t.Errorf("%+v", info)
	}
	w.shows("a", "^ready$")
	v := w.attach(api.SessionAttachParams{SessionID: "a"})
	first := v.next()
	if first.Type != api.EventSnapshot || first.Cols != 80 || first.Rows != 24 || !bytes.Contains(api.Data(first.Data, first.DataBase64), []byte("ready")) {
		t.Errorf("%+v", first)
	}
	w.types("a", "é", "enter")
	if ev := v.end(); ev.ExitCode != 3 {
		t.Errorf("%+v", ev)
	}
	if !bytes.Contains(v.text, []byte("got é\r\n")) {
		t.Errorf("%q", v.text)
	}
	details := w.ended(info.SessionID)
	if details.ExitCode == nil || *details.ExitCode != 3 || details.Cause != "the program exited with status 3" || details.ExecID != info.ExecID {
		t.Errorf("%+v", details)
	}
}

// TestAttachOverDaemons: the daemon is killed under a viewer. The terminal shows the same
// afterwards, and a viewer that reconnects gets exactly the bytes that it missed.
func TestAttachOverDaemons(t *testing.T) {
	w := start(t)
	info := w.terminal("a", "sh", "-c", `i=0; while read x; do i=$((i+1)); echo "line $i $x é"; done`)
	v := w.attach(api.SessionAttachParams{SessionID: "a", Size: &api.TerminalSize{Cols: 60, Rows: 10}})
	v.next()
	for i := range 20 {
		w.types("a", fmt.Sprint("one", i), "enter")
	}
	v.until(api.EventOutput, "line 20 one19 é\r\n")
	w.shows("a", "line 20")
	before := w.screen("a")
	had := v.offset()

	w.restart(nil)
	after := w.screen("a")
	if after.Text != before.Text || after.Cursor != before.Cursor || after.Offset != before.Offset || after.Cols != 60 || after.Version != before.Version {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	for i := range 5 {
		w.types("a", fmt.Sprint("two", i), "enter")
	}
	w.shows("a", "line 25 two4")
	back := w.attach(api.SessionAttachParams{SessionID: "a", FromOffset: &had})
	back.until(api.EventOutput, "line 25 two4 é\r\n")
	whole := testkit.Must(w.ExecOutput(w.ctx, api.ExecOutputParams{ExecID: info.ExecID}))(w)
	if got := append(v.text, back.text...); v.from != 0 || string(got) != whole.Data {
		t.Errorf("two viewers have %q\nthe log has      %q", got, whole.Data)
	}
	if first := back.events[0]; first.Type != api.EventResize || first.Cols != 60 || first.Rows != 10 || first.OwnerID != "" {
		t.Errorf("%+v", first)
	}
	fresh := w.attach(api.SessionAttachParams{SessionID: "a"}).next()
	if fresh.Type != api.EventSnapshot || fresh.Cols != 60 || *fresh.Offset != back.offset() {
		t.Errorf("%+v, want offset %d", fresh.ViewerEvent, back.offset())
	}
}

// waiting is a program that tells its process id, goes on when there is a file go in the
// directory that is its first argument, and ends with 5.
const waiting = `echo begin; echo $$ > "$0/pid"; until [ -e "$0/go" ]; do sleep 0.02; done; echo "the end é"; exit 5`

// letGo lets the program end, and returns when it has.
func letGo(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the program has ended", func() bool { return syscall.Kill(pid, 0) != nil })
}

// TestEndWithoutADaemon: the program ends while there is no daemon. The next one has
// its screen, its log, its exit, and the rest for a viewer that was there before.
func TestEndWithoutADaemon(t *testing.T) {
	w := start(t)
	dir := t.TempDir()
	info := w.terminal("a", "sh", "-c", waiting, dir)
	w.shows("a", "begin")
	before := w.attach(api.SessionAttachParams{SessionID: "a"}).next()
	had := *before.Offset
	w.restart(func() { letGo(t, dir) })

	details := w.ended(info.SessionID)
	if *details.ExitCode != 5 || details.Cause != "the program exited with status 5" || details.RunnerPID != 0 {
		t.Errorf("%+v", details)
	}
	screen := w.screen(info.SessionID)
	if screen.State != api.SessionTerminated || strings.TrimRight(screen.Text, "\n") != "begin\nthe end é" || screen.Cursor.Y != 2 {
		t.Errorf("%+v", screen)
	}
	out := testkit.Must(w.ExecOutput(w.ctx, api.ExecOutputParams{ExecID: info.ExecID}))(w)
	if out.Data != "begin\r\nthe end é\r\n" || !out.Complete || out.TotalBytes != screen.Offset {
		t.Errorf("%+v", out)
	}
	r := testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: info.SessionID, Text: "never"}))(w)
	if r.Reason != api.WaitExit || *r.ExitCode != 5 {
		t.Errorf("%+v", r)
	}
	_, err := w.SessionAttach(w.ctx, api.SessionAttachParams{SessionID: info.SessionID})
	testkit.WantError(t, err, api.CodeSessionTerminated, "the program exited with status 5")
	back := w.attach(api.SessionAttachParams{SessionID: info.SessionID, FromOffset: &had})
	if ev := back.end(); ev.ExitCode != 5 || string(back.text) != "the end é\r\n" {
		t.Errorf("%+v, %q", ev, back.text)
	}
	_, err = w.SessionInput(w.ctx, api.SessionInputParams{SessionID: info.SessionID, Text: "x"})
	testkit.WantError(t, err, api.CodeSessionTerminated, "the program exited with status 5")
}

// TestSlowViewer: no viewer slows the program. A viewer that is far behind gets a new
// snapshot, and then everything that follows it.
func TestSlowViewer(t *testing.T) {
	w := start(t)
	info := w.terminal("a", "sh", "-c", `read x; i=0; while [ $i -lt 60000 ]; do echo "number $i ..............................................................."; i=$((i+1)); done; echo done; read x`)
	v := w.attach(api.SessionAttachParams{SessionID: "a"})
	v.next()
	w.types("a", "", "enter")
	w.shows("a", "^done$") // and the viewer has not read one byte of it
	v.until(api.EventSnapshot, "")
	w.types("a", "", "enter")
	if ev := v.end(); ev.ExitCode != 0 {
		t.Errorf("%+v", ev)
	}
	total := testkit.Must(w.ExecInfo(w.ctx, api.ExecInfoParams{ExecID: info.ExecID}))(w).StdoutBytes
	if total < 4<<20 || v.offset() != total {
		t.Errorf("the viewer is at %d of %d", v.offset(), total)
	}
	kinds := map[string]int{}
	for _, ev := range v.events {
		kinds[ev.Type]++
	}
	if kinds[api.EventSnapshot] < 2 {
		t.Errorf("%v", kinds)
	}
}

// TestEndOfAFlood: the program has written much, and ends while a viewer reads it. The viewer gets
// all of it, though its runner has gone. It asks for the output by its offset: a viewer that follows
// may be too slow on a busy machine, and gets a snapshot then.
func TestEndOfAFlood(t *testing.T) {
	w := start(t)
	info := w.terminal("a", "sh", "-c", `head -c 900000 /dev/zero | tr '\0' y; echo; echo full; read x; exit 4`)
	w.shows("a", "^full$")
	zero := int64(0)
	v := w.attach(api.SessionAttachParams{SessionID: "a", FromOffset: &zero})
	w.types("a", "", "enter")
	w.ended(info.SessionID)
	if ev := v.end(); ev.ExitCode != 4 || v.from != 0 || bytes.Count(v.text, []byte("y")) != 900000 {
		t.Errorf("%+v after %d bytes from %d", ev, len(v.text), v.from)
	}
}

// TestAttachToWhatEndsAtOnce: a viewer that comes with a size and an offset gets what was
// shown and the exit, whenever it comes.
func TestAttachToWhatEndsAtOnce(t *testing.T) {
	w := start(t)
	zero := int64(0)
	for range 30 {
		info := w.terminal("", "sh", "-c", "echo quick; exit 4")
		v := w.attach(api.SessionAttachParams{SessionID: info.SessionID, FromOffset: &zero, Size: size(90, 20)})
		if ev := v.end(); ev.ExitCode != 4 || string(v.text) != "quick\r\n" {
			t.Errorf("%+v, %q", ev, v.text)
		}
		if x := testkit.Must(w.ExecInfo(w.ctx, api.ExecInfoParams{ExecID: info.ExecID}))(w); x.Outcome == nil || x.Outcome.ExitCode != 4 {
			t.Errorf("%+v", x)
		}
	}
}
