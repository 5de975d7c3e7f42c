package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/terminal/cast"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

// isFile reports whether a word names a file rather than a session.
func isFile(word string) bool {
	if strings.Contains(word, "/") || strings.HasSuffix(word, ".cast") {
		return true
	}
	info, err := os.Stat(word)
	return err == nil && info.Mode().IsRegular()
}

// recorded reads the recording of a session, up to its current end.
type recorded struct {
	ctx     context.Context
	client  *client.Client
	session string
	offset  int64
	rest    []byte
	done    bool
}

func (r *recorded) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.done {
			return 0, io.EOF
		}
		data, total, err := r.piece()
		if err != nil {
			return 0, err
		}
		r.rest = []byte(data)
		r.offset += int64(len(r.rest))
		r.done = r.offset >= total || len(r.rest) == 0
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// piece reads the next piece of the recording. The recording may have outlived its session.
func (r *recorded) piece() (data string, total int64, err error) {
	res, err := r.client.SessionRecording(r.ctx, api.SessionRecordingParams{SessionID: r.session, Offset: r.offset})
	if err == nil {
		r.session = res.SessionID
		return res.Data, res.Total, nil
	}
	if errors.Is(err, api.ErrSessionNotFound) {
		if kept, gone := r.client.RecordingRead(r.ctx, api.RecordingReadParams{RecordingID: r.session, Offset: r.offset}); gone == nil {
			return kept.Data, kept.Total, nil
		}
	}
	return "", 0, err
}

// openRecording opens the recording in a file or of a session.
func (a *app) openRecording(ctx context.Context, c *client.Client, word string) (r *cast.Reader, done func(), err error) {
	done = func() {}
	if isFile(word) {
		f, err := os.Open(word)
		if err != nil {
			return nil, done, err
		}
		r, err = readCast(word, f)
		return r, func() { _ = f.Close() }, err
	}
	r, err = readCast(word, &recorded{ctx: ctx, client: c, session: word})
	if errors.Is(err, api.ErrSessionNotFound) {
		err = ui.WithHint(err, "`trl ls -a` lists the sessions, `trl recordings` the recordings")
	}
	return r, done, err
}

// readCast reads the header of a recording. The name is for errors.
func readCast(name string, r io.Reader) (*cast.Reader, error) {
	reader, err := cast.NewReader(r)
	var e *api.Error
	if errors.As(err, &e) { // from the daemon, not about the file
		return nil, e
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if h := reader.Header(); h.Cols > api.MaxCols || h.Rows > api.MaxRows {
		return nil, fmt.Errorf("%s: a terminal of %dx%d: at most %dx%d", name, h.Cols, h.Rows, api.MaxCols, api.MaxRows)
	}
	return reader, nil
}

// replay returns a terminal model that has seen the whole recording.
func replay(name string, r *cast.Reader, scrollback int) (*vt.Terminal, error) {
	h := r.Header()
	t := vt.New(vt.Config{Cols: max(h.Cols, api.MinCols), Rows: h.Rows, Scrollback: scrollback})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		switch e.Code {
		case cast.Output:
			t.Write([]byte(e.Data))
			t.Replies()
		case cast.Resize:
			if cols, rows, err := e.Size(); err == nil && cols <= api.MaxCols && rows <= api.MaxRows {
				t.Resize(max(cols, api.MinCols), rows)
			}
		}
	}
}

// modelOf returns a terminal model with the screen of a session, from the result of
// session.screen with the format ansi.
func modelOf(s api.SessionScreenResult) *vt.Terminal {
	lines := strings.Split(s.Text, "\n")
	t := vt.New(vt.Config{Cols: s.Cols, Rows: s.Rows, Scrollback: len(lines)})
	t.Write([]byte(strings.Join(lines, "\r\n")))
	t.Write(fmt.Appendf(nil, "\x1b]2;%s\x1b\\\x1b[%d;%dH", s.Title, s.Cursor.Y+1, min(s.Cursor.X, s.Cols-1)+1))
	if !s.Cursor.Visible {
		t.Write([]byte("\x1b[?25l"))
	}
	return t
}

// rowsOf returns the screen of a model and its scrollback, as text or with colours.
func rowsOf(t *vt.Terminal, scrollback int, ansi bool) string {
	_, rows := t.Size()
	above := t.ScrollbackLen()
	if scrollback >= 0 {
		above = min(above, scrollback)
	}
	var b bytes.Buffer
	for y := -above; y < rows; y++ {
		if ansi {
			b.Write(t.RowANSI(y, nil))
		} else {
			b.WriteString(t.RowText(y))
		}
		b.WriteByte('\n')
	}
	return ui.TrimBlankRows(b.String())
}
