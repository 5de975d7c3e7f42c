package archive_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

// terminal files a terminal session whose program wrote text; of its log limit bytes are kept.
func terminal(t *testing.T, session, text string, limit int64, screen bool) *archive.Entry {
	t.Helper()
	now, exec := time.Now(), "x-"+session[2:]+"-1"
	outcome := &api.ExecOutcome{ExitCode: 3, StdoutBytes: int64(len(text))}
	result := link.DestroyResult{
		Info: api.SessionDetails{SessionInfo: api.SessionInfo{
			SessionID: session, Kind: api.KindTerminal, State: api.SessionTerminated, TerminatedAt: &now, Cause: "over", ExecID: exec,
			Terminal: &api.TerminalInfo{Cols: 20, Rows: 4},
		}},
		Execs: []api.ExecInfo{{ExecID: exec, SessionID: session, State: api.ExecClosed, Outcome: outcome}},
	}
	l := output.New(output.NewStore(output.StoreConfig{}), limit)
	l.Append(output.Stdout, []byte(text))
	x := export.Ended(exec, l, export.Status{Mark: l.Mark()})
	l.Close()
	var last *export.Screen
	if screen {
		model := vt.New(vt.Config{Cols: 20, Rows: 4, Scrollback: 100})
		model.Write([]byte(text))
		last = &export.Screen{
			SnapshotResult: link.SnapshotResult{Offset: int64(len(text)), Cols: 20, Rows: 4, Version: model.Version()}, Data: model.Snapshot(-1),
		}
	}
	var b bytes.Buffer
	if err := export.Write(&b, result, []*export.Exec{x}, last); err != nil {
		t.Fatal(err)
	}
	return add(t, newPlace(t).open(t), session, b.Bytes())
}

func TestLastScreen(t *testing.T) {
	text := strings.Repeat("a line\r\n", 10) + "\x1b[31mtwo é\x1b[m\r\nprompt> "
	e := terminal(t, id(1), text, 1<<20, true)
	s, err := e.Screen(api.SessionScreenParams{})
	if err != nil || strings.TrimRight(s.Text, "\n") != "a line\na line\ntwo é\nprompt>" || s.Cols != 20 || s.Rows != 4 || s.Offset != int64(len(text)) ||
		s.Cursor.X != 8 || s.Cursor.Y != 3 || s.ScrollbackLines != 8 {
		t.Errorf("%+v, %v", s, err)
	}
	r, data, err := e.Snapshot(link.SnapshotParams{Scrollback: -1})
	if err != nil || r.Offset != int64(len(text)) || r.Cols != 20 {
		t.Errorf("%+v, %v", r, err)
	}
	model := vt.New(vt.Config{Cols: 20, Rows: 4, Scrollback: 100})
	model.Write(data)
	if model.RowText(2) != "two é" || model.ScrollbackLen() != 8 {
		t.Errorf("%q, %d lines above", model.RowText(2), model.ScrollbackLen())
	}
	none := terminal(t, id(2), text, 1<<20, false)
	if _, err := none.Screen(api.SessionScreenParams{}); api.AsError(err).Code != api.CodeSessionTerminated {
		t.Errorf("without a screen: %v", err)
	}
}

// TestFollowToTheEnd reads what a viewer had not got when the session ended.
func TestFollowToTheEnd(t *testing.T) {
	text := strings.Repeat("é漢字 \U0001F600\n", 50)
	e := terminal(t, id(1), text, 1<<20, true)
	for _, limit := range []int{1, 4, 5, 7, 1000} {
		var got []byte
		p := link.FollowParams{Offset: 2, Limit: limit, Wait: true, Resizes: 5}
		for {
			r, data, err := e.Follow(p)
			if err != nil || r.Behind || r.Resizes != 5 || r.Cols != 20 || r.Rows != 4 || len(data) > limit || len(data) == 0 && r.Outcome == nil {
				t.Fatalf("limit %d: %+v, %q, %v", limit, r, data, err)
			}
			if limit >= utf8.UTFMax && !utf8.Valid(data) {
				t.Fatalf("limit %d: ends inside a character: %q", limit, data)
			}
			got = append(got, data...)
			p.Offset += int64(len(data))
			if r.Outcome != nil {
				if r.Outcome.ExitCode != 3 {
					t.Errorf("%+v", r.Outcome)
				}
				break
			}
		}
		if string(got) != text[2:] {
			t.Errorf("limit %d: %d bytes of %d", limit, len(got), len(text)-2)
		}
	}
	if r, data, err := e.Follow(link.FollowParams{Offset: 2, Limit: 10, Backlog: 100}); err != nil || !r.Behind || len(data) > 0 {
		t.Errorf("beyond the backlog: %+v, %v", r, err)
	}
	if _, _, err := e.Follow(link.FollowParams{Offset: int64(len(text)) + 1, Limit: 10}); api.AsError(err).Code != api.CodeInvalidParams {
		t.Errorf("beyond the end: %v", err)
	}
	holed := terminal(t, id(2), strings.Repeat("0123456789", 10_000), 8192, true)
	if r, _, err := holed.Follow(link.FollowParams{Offset: 50_000, Limit: 10}); err != nil || !r.Behind {
		t.Errorf("where nothing is kept: %+v, %v", r, err)
	}
	if r, data, err := holed.Follow(link.FollowParams{Offset: 99_990, Limit: 100}); err != nil || string(data) != "0123456789" || r.Outcome == nil {
		t.Errorf("at the end: %+v, %q, %v", r, data, err)
	}
}
