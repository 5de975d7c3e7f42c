package dialogue

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// speaker is a program whose output a test provides.
type speaker struct {
	vanished
	pieces chan piece
}

func (s speaker) recv(ctx context.Context) (piece, error) {
	select {
	case p := <-s.pieces:
		return p, nil
	case <-ctx.Done():
		return piece{}, ctx.Err()
	}
}

// speaking is a dialogue that reads from a program.
func speaking(t *testing.T) (*Dialogue, *agentProcess, chan piece) {
	t.Helper()
	d, p := begin(t, filepath.Join(t.TempDir(), "d-1"))
	pieces := make(chan piece)
	p.program = speaker{pieces: pieces}
	go d.readOutput(p)
	return d, p, pieces
}

// fill makes writes to f fail as on a full disk; empty undoes that.
func fill(t *testing.T, d *Dialogue, f **os.File) (empty func()) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("NOT TESTED: a full disk:", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := *f
	*f = full
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		*f = kept
		full.Close()
	}
}

// TestFullDisk: as long as the record cannot be written, nothing is taken from the program
// and nothing sent; then it goes on, and nothing is missing.
func TestFullDisk(t *testing.T) {
	s := recorded(t)
	cut := s.calls[1].Offset
	for name, file := range map[string]func(*record) **os.File{
		"output": func(r *record) **os.File { return &r.stdout },
		"events": func(r *record) **os.File { return &r.events },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, p, pieces := speaking(t)
				d.mu.Lock()
				p.opening.to(openAnswered, "")
				d.mu.Unlock()
				pieces <- piece{stream: api.EventStdout, data: s.stdout[:10]}
				synctest.Wait()
				empty := fill(t, d, file(d.record))
				pieces <- piece{stream: api.EventStdout, offset: 10, data: s.stdout[10:cut]}
				time.Sleep(10 * roomPause)
				info := d.Info()
				if e := info.Error; info.State != api.DialogueError || e == nil || e.Code != recordFailed || e.Reason != "disk" || !e.Retry || !strings.Contains(e.Message, "no space left") {
					t.Fatalf("%+v, %+v", info, info.Error)
				}
				if _, err := d.Send(t.Context(), api.DialogueSendParams{Text: "x"}); err == nil || api.AsError(err).Code != api.CodeResourcePressure {
					t.Errorf("send: %v", err)
				}
				if info, err := d.Retry(t.Context()); err != nil || info.State != api.DialogueError {
					t.Errorf("retry: %+v, %v", info, err)
				}
				empty()
				if info, err := d.Retry(t.Context()); err != nil || info.State == api.DialogueError || info.Error != nil {
					t.Errorf("retry: %+v, %v", info, err)
				}
				if got, err := os.ReadFile(d.record.path("stdout", 1)); err != nil || string(got) != string(s.stdout[:cut]) {
					t.Errorf("%d bytes of output, want %d: %v", len(got), cut, err)
				}
				written, seq := int64(0), d.Info().Seq
				if err := d.record.load(func(api.DialogueEvent) { written++ }); err != nil || written != seq {
					t.Errorf("%d events are written, of %d: %v", written, seq, err)
				}
				p.release()
				<-p.done
			})
		})
	}
}

// TestFullDiskAndTheEnd: a program ends on request, even if its end cannot be written.
func TestFullDiskAndTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p, pieces := speaking(t)
		d.mu.Lock()
		p.opening.to(openAnswered, "")
		d.mu.Unlock()
		empty := fill(t, d, &d.record.stdout)
		pieces <- piece{stream: api.EventStdout, data: []byte("{}\n")}
		synctest.Wait()
		d.mu.Lock()
		p.ending.because("terminated")
		d.mu.Unlock()
		pieces <- piece{stream: api.EventStdout, offset: 3, data: []byte("{}\n")}
		pieces <- piece{exit: &api.ExecOutcome{ExitCode: 3}}
		<-p.done
		if info := d.Info(); info.State != api.DialogueEnded || info.Ended == nil || *info.Ended.ExitCode != 3 {
			t.Errorf("%+v", info)
		}
		empty()
	})
}

// TestFullDiskThenRestart: events that were published late, because the disk was full, are the same
// after the next daemon replays the record.
func TestFullDiskThenRestart(t *testing.T) {
	s := recorded(t)
	hello := []byte(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{}}}` + "\n")
	stdout := append(hello, s.stdout...)
	begun, cut := int64(len(hello)+20), s.calls[1].Offset+int64(len(hello))
	for name, file := range map[string]func(*record) **os.File{
		"output": func(r *record) **os.File { return &r.stdout },
		"events": func(r *record) **os.File { return &r.events },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, p, pieces := speaking(t)
				do := func(c agent.Call) {
					synctest.Wait()
					d.mu.Lock()
					defer d.mu.Unlock()
					d.callLocked(p, c)
				}
				pieces <- piece{stream: api.EventStdout, data: stdout[:begun]}
				do(s.calls[0].Call)
				pieces <- piece{stream: api.EventStdout, offset: begun, data: stdout[begun:cut]}
				do(s.calls[1].Call)
				empty := fill(t, d, file(d.record))
				pieces <- piece{stream: api.EventStdout, offset: cut, data: stdout[cut:]}
				time.Sleep(3 * roomPause)
				if info := d.Info(); info.State != api.DialogueError {
					t.Fatalf("%+v", info)
				}
				empty()
				time.Sleep(3 * roomPause)
				do(agent.Call{Send: &agent.Message{ID: "3f1c5a52-0000-4000-8000-000000000002", Content: []api.DialogueContent{{Type: "text", Text: "more"}}}})
				synctest.Wait()
				p.release()
				<-p.done
				d.record.end()
				state, want := d.Info().State, eventsIn(t, d.record.dir)
				var log bytes.Buffer
				next, _, err := tryAgain(t, d.record.dir, &log)
				if err != nil || log.Len() > 0 {
					t.Errorf("%v: %s", err, &log)
				}
				if got := eventsIn(t, d.record.dir); got != want {
					t.Errorf("the next daemon makes\n%s\nof\n%s", got, want)
				}
				if got := next.Info().State; got != state {
					t.Errorf("it was %s, and is %s", state, got)
				}
			})
		})
	}
}
