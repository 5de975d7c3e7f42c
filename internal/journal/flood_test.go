package journal

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// say sends a runner's event about a command.
func say(j *Journal, session string, e link.ExecEvent) {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	j.ReceiveExecEvent(session, text)
}

// flood publishes the events of n commands, three each, of one session.
func flood(j *Journal, from, n int) {
	j.PublishSession(api.SessionInfo{SessionID: "s-1", Name: "build", State: api.SessionIdle, CreatedAt: time.Now()})
	for i := from; i < from+n; i++ {
		for _, state := range []api.ExecState{api.ExecRunning, api.ExecExited, api.ExecClosed} {
			e := link.ExecEvent{ExecID: fmt.Sprint("x-1-", i), State: state, At: time.Now()}
			if state == api.ExecExited {
				e.Outcome = &api.ExecOutcome{ExitCode: i}
			}
			say(j, "s-1", e)
		}
	}
}

func TestJournalIsBounded(t *testing.T) {
	j := New(slog.New(slog.DiscardHandler))
	flood(j, 1, 5000)
	if j.Last() != 15_001 {
		t.Fatalf("%d events", j.Last())
	}
	events, first := j.Read(0, 7)
	if first <= 1 || first > 5_002 || len(events) != 7 || events[0].Seq != first {
		t.Errorf("first %d, %d events", first, len(events))
	}
	for _, after := range []int64{first - 1, 15_000, 15_001, 99_999} {
		want := min(7, max(0, int(15_001-after)))
		if events, _ := j.Read(after, 7); len(events) != want || want > 0 && events[0].Seq != after+1 {
			t.Errorf("after %d: %d events", after, len(events))
		}
	}
}

// TestJournalFilesAreBounded: two files are kept, and together they know what is open,
// however long ago it was published.
func TestJournalFilesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	log := slog.New(slog.DiscardHandler)
	j, err := Open(path, log)
	if err != nil {
		t.Fatal(err)
	}
	j.maxFile = 64 << 10
	j.PublishSession(api.SessionInfo{SessionID: "s-0", Name: "old", State: api.SessionRunning})
	say(j, "s-0", link.ExecEvent{ExecID: "x-0-1", State: api.ExecClosed})
	say(j, "s-0", link.ExecEvent{ExecID: "x-0-3", State: api.ExecRunning})
	for i := range 60 {
		flood(j, 1+i*10, 10)
		j.Read(j.Last()-1, 1) // writes
	}
	var size int64
	for _, p := range []string{path, path + olderSuffix} {
		fi, err := os.Stat(p)
		if err != nil || fi.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", fi, err)
		}
		size += fi.Size()
	}
	if size > 3*j.maxFile {
		t.Errorf("the files have %d bytes", size)
	}
	last := j.Last()
	j.Close()

	again, err := Open(path, log)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	events, first := again.Read(0, 1<<20)
	if again.Last() != last || len(events) < 200 || first != last-int64(len(events))+1 {
		t.Errorf("last %d of %d, %d events from %d", again.Last(), last, len(events), first)
	}
	// Nothing of this is news, except the command that was never reported.
	flood(again, 1, 600)
	again.PublishSession(api.SessionInfo{SessionID: "s-0", Name: "old", State: api.SessionRunning})
	again.PublishExecs("s-0", []api.ExecInfo{
		{ExecID: "x-0-1", State: api.ExecClosed}, {ExecID: "x-0-2", State: api.ExecQueued},
		{ExecID: "x-0-3", State: api.ExecRunning, StartedAt: &time.Time{}},
	})
	got, _ := again.Read(last, 10)
	if len(got) != 1 || got[0].Type != api.EventExecQueued || got[0].ExecID != "x-0-2" {
		t.Errorf("told anew: %+v", got)
	}
}

// TestCommandsMayComeInAnyOrder: a short command may be reported after a later one.
func TestCommandsMayComeInAnyOrder(t *testing.T) {
	j := New(slog.New(slog.DiscardHandler))
	j.PublishSession(api.SessionInfo{SessionID: "s-1", State: api.SessionIdle})
	tell := func(n int, state api.ExecState) {
		say(j, "s-1", link.ExecEvent{ExecID: fmt.Sprint("x-1-", n), State: state})
	}
	tell(2, api.ExecQueued)
	tell(1, api.ExecRunning)
	tell(2, api.ExecRunning)
	tell(1, api.ExecClosed)
	tell(1, api.ExecExited) // too late
	tell(2, api.ExecQueued)
	tell(2, "asleep")
	var got string
	events, _ := j.Read(1, 100)
	for _, ev := range events {
		got += fmt.Sprintln(ev.Type, ev.ExecID)
	}
	if want := "exec.queued x-1-2\nexec.running x-1-1\nexec.running x-1-2\nexec.closed x-1-1\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// A runner that has forgotten a command will never report its end.
	j.PublishExecs("s-1", []api.ExecInfo{{ExecID: "x-1-3", State: api.ExecQueued}})
	events, _ = j.Read(5, 100)
	if len(events) != 2 || events[0].Type != api.EventExecClosed || events[0].ExecID != "x-1-2" {
		t.Errorf("%+v", events)
	}
}
