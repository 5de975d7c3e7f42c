package terminal_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// sizes is a program that tells its size whenever it is signalled, with a number.
const sizes = `n=0; tell() { n=$((n+1)); echo "size $n: $(stty size)"; }; trap tell WINCH; tell; while :; do sleep 1000 & wait $!; done`

func size(cols, rows int) *api.TerminalSize { return &api.TerminalSize{Cols: cols, Rows: rows} }

// TestOwnerOfTheSize: the program has the size of the viewer that owns it, is signalled
// only when that changes, and every viewer gets the change.
func TestOwnerOfTheSize(t *testing.T) {
	w := start(t)
	w.terminal("a", "sh", "-c", sizes)
	w.shows("a", "size 1: 24 80")
	look := w.attach(api.SessionAttachParams{SessionID: "a"})
	if ev := look.next(); ev.OwnerID != "" || ev.Cols != 80 {
		t.Errorf("%+v", ev.ViewerEvent)
	}
	one := w.attach(api.SessionAttachParams{SessionID: "a", Size: size(100, 30)})
	if ev := one.next(); ev.OwnerID != one.id() || ev.Cols != 100 || ev.Rows != 30 {
		t.Errorf("%+v", ev.ViewerEvent)
	}
	w.shows("a", "size 2: 30 100")
	two := w.attach(api.SessionAttachParams{SessionID: "a", Size: size(90, 20)})
	if ev := two.next(); ev.OwnerID != one.id() || ev.Cols != 100 {
		t.Errorf("%+v", ev.ViewerEvent)
	}
	three := w.attach(api.SessionAttachParams{SessionID: "a", Size: size(20, 5), ReadOnly: true})
	three.next()

	resize := func(p api.SessionResizeParams) api.SessionResizeResult {
		t.Helper()
		p.SessionID = "a"
		return testkit.Must(w.SessionResize(w.ctx, p))(w)
	}
	// Another viewer is remembered, the same size is nothing, and the program hears of neither.
	if r := resize(api.SessionResizeParams{Cols: 95, Rows: 25, ViewerID: two.id()}); r.Applied || r.Cols != 100 || r.OwnerID != one.id() {
		t.Errorf("%+v", r)
	}
	if r := resize(api.SessionResizeParams{Cols: 100, Rows: 30, ViewerID: one.id()}); !r.Applied {
		t.Errorf("%+v", r)
	}
	_, err := w.SessionResize(w.ctx, api.SessionResizeParams{SessionID: "a", Cols: 50, Rows: 10})
	testkit.WantError(t, err, api.CodeConflict, "its size is that of viewer "+one.id())
	if r := resize(api.SessionResizeParams{Cols: 110, Rows: 31, ViewerID: one.id()}); !r.Applied {
		t.Errorf("%+v", r)
	}
	w.shows("a", "size 3: 31 110")
	for _, v := range []*viewer{look, two, three} {
		for ev := v.until(api.EventResize, ""); ev.Cols != 110 || ev.OwnerID != one.id(); ev = v.until(api.EventResize, "") {
		}
	}
	// The owner leaves with its connection; the next one's last size is applied.
	one.stream.Close()
	w.shows("a", "size 4: 25 95")
	for ev := look.until(api.EventResize, ""); ev.Cols != 95 || ev.OwnerID != two.id(); ev = look.until(api.EventResize, "") {
	}
	if r := resize(api.SessionResizeParams{Cols: 40, Rows: 12, Force: true}); !r.Applied || r.OwnerID != "" {
		t.Errorf("%+v", r)
	}
	w.shows("a", "size 5: 12 40")
	four := w.attach(api.SessionAttachParams{SessionID: "a", Size: size(70, 15)})
	if ev := four.next(); ev.OwnerID != four.id() || ev.Cols != 70 {
		t.Errorf("%+v", ev.ViewerEvent)
	}
	w.shows("a", "size 6: 15 70")
	five := w.attach(api.SessionAttachParams{SessionID: "a", Size: size(71, 15), TakeSize: true})
	five.next()
	w.shows("a", "size 7: 15 71")
	list := testkit.Must(w.SessionList(w.ctx, api.SessionListParams{}))(w)
	if n := list.Sessions[0].Terminal.Viewers; n != 5 {
		t.Errorf("%d viewers", n)
	}
	for _, v := range []*viewer{look, two, three, four, five} {
		v.stream.Close()
	}
	w.viewers("a", 0)
}

// viewers waits until a terminal has that many.
func (w *world) viewers(name string, n int) {
	w.Helper()
	for {
		info := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: name}))(w)
		if info.Terminal.Viewers == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// deaf attaches over the socket and reads nothing but the answer.
func (w *world) deaf(name string, size *api.TerminalSize) net.Conn {
	w.Helper()
	conn, err := net.Dial("unix", w.daemon.Socket)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	_ = conn.(*net.UnixConn).SetReadBuffer(4096)
	fmt.Fprintf(conn, `{"id":1,"method":"session.attach","params":{"session_id":%q,"size":{"cols":%d,"rows":%d}}}`+"\n", name, size.Cols, size.Rows)
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	if err != nil || !strings.Contains(line, "viewer_id") {
		w.Fatalf("%q, %v", line, err)
	}
	return conn
}

// TestViewersThatNeverRead: they delay no other viewer, take little memory, and lose the size with
// their connections.
func TestViewersThatNeverRead(t *testing.T) {
	plain, err := trltest.Plain()
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, trltest.Use(plain))
	// Each flood has 9 MB.
	w.terminal("a", "sh", "-c", `while read x; do
		i=0; while [ $i -lt 100000 ]; do echo "number $i .............................................................................."; i=$((i+1)); done
		echo "done $x"; stty size; done`)
	first := w.deaf("a", size(101, 31))
	const n = 30
	var conns []net.Conn
	for i := range n {
		conns = append(conns, w.deaf("a", size(50+i, 20)))
	}
	w.viewers("a", n+1)
	pid, _ := w.PeerPID()
	memory := func() int64 { return process.UseOf(pid).RSSBytes >> 20 }
	before := memory()
	if before == 0 {
		t.Fatalf("the memory of process %d cannot be read", pid)
	}
	floods := []string{"one", "two", "three", "four", "five"}
	for _, flood := range floods {
		w.types("a", flood, "enter")
		w.shows("a", "^done "+flood)
	}
	// What a viewer may have is a piece, and what is on the way to it; not one of the floods. A daemon
	// without calls returns the memory that it does not need.
	testkit.EventuallyNoProblem(t, func() string {
		if grown := memory() - before; grown > 9*int64(len(floods)) {
			return fmt.Sprintf("%d viewers that read nothing take %d MiB", n, grown)
		}
		return ""
	})
	w.shows("a", "^31 101$")
	first.Close()
	for {
		info := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: "a"}))(w)
		if info.Terminal.Cols == 50 && info.Terminal.Viewers == n {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for _, conn := range conns {
		conn.Close()
	}
	w.viewers("a", 0)
}

// TestWaitOfWhoLeaves: a wait costs nothing after its caller has disconnected, and it ends with the
// session.
func TestWaitOfWhoLeaves(t *testing.T) {
	w := start(t)
	w.terminal("a", "sh", "-c", "read x")
	gone, cancel := context.WithCancel(w.ctx)
	left := make(chan error, 1)
	go func() {
		_, err := w.SessionWait(gone, api.SessionWaitParams{SessionID: "a", Text: "never"})
		left <- err
	}()
	zero := 0.0
	look := testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: "a", Text: "never", TimeoutS: &zero}))(w)
	if !look.TimedOut || look.Reason != api.WaitTimeout {
		t.Errorf("%+v", look)
	}
	cancel()
	if err := <-left; err == nil {
		t.Error("it waited for something")
	}
	heard := make(chan api.SessionWaitResult, 1)
	go func() {
		r, err := w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: "a", Text: "never"})
		if err != nil {
			t.Error(err)
		}
		heard <- r
	}()
	testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: "a", WaitingForInput: true}))(w)
	id := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: "a"}))(w).SessionID
	testkit.Must(w.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: "a"}))(w)
	if r := <-heard; r.Reason != api.WaitExit || r.Signal == "" && r.ExitCode == nil || r.SessionID != id {
		t.Errorf("%+v", r)
	}
}
