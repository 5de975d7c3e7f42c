package runner

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// An export holds the readable remains of a session: the saved log of each command, one
// after another, the last screen of a terminal, then a directory in JSON, then the length of
// the directory in eight bytes. The directory comes last because the positions of the logs
// are known only then; a reader starts at the end.
type directory struct {
	Version int                `json:"version"`
	Result  link.DestroyResult `json:"result"`
	Logs    []savedLog         `json:"logs"`
	Screen  *savedScreen       `json:"screen,omitempty"`
}

const exportVersion = 1

// savedLog says where the log of a command is in an export.
type savedLog struct {
	ExecID string     `json:"exec_id"`
	At     int64      `json:"at"`
	Len    int64      `json:"len"`
	Mark   int64      `json:"mark"`            // the number of the exit
	Error  *api.Error `json:"error,omitempty"` // why it could not be run
}

// savedScreen says where the snapshot of the last screen is in an export.
type savedScreen struct {
	link.SnapshotResult
	At  int64 `json:"at"`
	Len int64 `json:"len"`
}

// ExportedExec is a command in an export.
type ExportedExec struct {
	ExecID string
	Log    *output.Log
	Mark   int64 // the number of the exit
	Err    error // why it could not be run
}

// ExportedScreen is the last screen of a terminal, as a snapshot.
type ExportedScreen struct {
	link.SnapshotResult
	Data []byte // what makes a fresh terminal show it
}

// WriteExport writes the export of a session that has ended. Its logs are closed; screen
// is nil when it was not a terminal.
func WriteExport(w io.Writer, res link.DestroyResult, execs []ExportedExec, screen *ExportedScreen) error {
	count := &counter{w: bufio.NewWriterSize(w, 256<<10)}
	d := directory{Version: exportVersion, Result: res}
	for _, e := range execs {
		log := savedLog{ExecID: e.ExecID, At: count.n, Mark: e.Mark}
		if e.Err != nil {
			log.Error = api.AsError(e.Err)
		}
		if err := e.Log.Save(count); err != nil {
			return err
		}
		log.Len = count.n - log.At
		d.Logs = append(d.Logs, log)
	}
	if screen != nil {
		d.Screen = &savedScreen{SnapshotResult: screen.SnapshotResult, At: count.n, Len: int64(len(screen.Data))}
		if _, err := count.Write(screen.Data); err != nil {
			return err
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if _, err := count.Write(binary.BigEndian.AppendUint64(text, uint64(len(text)))); err != nil {
		return err
	}
	return count.w.Flush()
}

// counter counts what is written.
type counter struct {
	w *bufio.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// exportPiece is how much of an export goes with one answer.
const exportPiece = 1 << 20

// export is one that is being fetched. A goroutine writes it, as fast as it is fetched.
type export struct {
	r    *io.PipeReader
	over bool // nothing follows; guarded by the runner's mu
}

// dismissed answers destroy. If the daemon wants what remains, the first piece of it
// comes with the answer, and the runner lives until the daemon says that it has all.
func (r *Runner) dismissed(_ context.Context, q *link.Request[*link.DestroyParams, *link.DestroyResult]) error {
	p := *q.Params
	r.mu.Lock()
	r.wanted = r.wanted || p.Export && r.created
	r.mu.Unlock()
	res := r.destroy(p, false)

	screen := r.lastScreen()
	r.mu.Lock()
	r.loneTimer.Stop()
	wanted, fetching := r.wanted, r.export != nil
	if wanted && !fetching && p.Export {
		pr, pw := io.Pipe()
		r.export = &export{r: pr}
		execs := make([]ExportedExec, 0, len(r.order))
		for _, e := range r.order {
			_, mark, err := e.atExit()
			execs = append(execs, ExportedExec{ExecID: e.id, Log: e.log, Mark: mark, Err: err})
		}
		go func() { _ = pw.CloseWithError(WriteExport(pw, res, execs, screen)) }()
	}
	x := r.export
	r.mu.Unlock()
	switch {
	case !wanted:
		q.Answer(&res, nil)
		r.exit()
		return nil
	case fetching || x == nil: // another call fetches the export, or will
		q.Answer(&res, nil)
		return nil
	}
	piece, result, err := r.piece(x)
	if err != nil { // the receipt is better than nothing
		q.Answer(&res, nil)
		r.exit()
		return nil
	}
	res.Export = &result
	q.Answer(&res, piece)
	return nil
}

// piece is the next of an export.
func (r *Runner) piece(x *export) ([]byte, link.ExportResult, error) {
	buf := make([]byte, exportPiece)
	n, err := io.ReadFull(x.r, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		r.mu.Lock()
		x.over = true
		r.mu.Unlock()
		return buf[:n], link.ExportResult{}, nil
	}
	return buf[:n], link.ExportResult{More: true}, err
}

// continueExport is export: it answers with the next piece, or exits when the daemon has them all.
func (r *Runner) continueExport(_ context.Context, q *link.Request[*struct{}, *link.ExportResult]) error {
	r.mu.Lock()
	x := r.export
	safe := x != nil && x.over
	if safe {
		r.wanted = false
	}
	r.mu.Unlock()
	switch {
	case x == nil:
		return api.Errorf(api.CodeInternal, "session %q: there is no export", r.cfg.SessionID)
	case safe:
		q.Answer(&link.ExportResult{}, nil)
		r.exit()
		return nil
	}
	piece, result, err := r.piece(x)
	if err == nil {
		q.Answer(&result, piece)
	}
	return err
}

// lastScreen is what the terminal of the session shows at the end.
func (r *Runner) lastScreen() *ExportedScreen {
	r.mu.Lock()
	p := r.program
	r.mu.Unlock()
	if p == nil || p.terminal == nil {
		return nil
	}
	res, data, err := p.terminal.Snapshot(context.Background(), -1)
	if err != nil {
		return nil
	}
	return &ExportedScreen{SnapshotResult: res, Data: data}
}

// linger ends a runner whose daemon left while the session was being destroyed; later,
// if what remains is still wanted, because the next daemon may fetch it.
func (r *Runner) linger(e *ending) {
	<-e.done
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.conn != nil: // there is another one already
	case r.wanted || e.own:
		r.waitThenExitLocked(r.patienceLocked())
	default:
		r.waitThenExitLocked(0)
	}
}
