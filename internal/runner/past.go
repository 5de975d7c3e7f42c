package runner

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// maxDirectory bounds what is read of an export at once.
const maxDirectory = 64 << 20

var errExport = errors.New("not an export of a session")

// Past is a session that has ended, read from its export. It is safe for concurrent use.
type Past struct {
	Result link.DestroyResult
	src    io.ReaderAt
	logs   map[string]savedLog
	screen *savedScreen
	infos  map[string]api.ExecInfo
}

// OpenPast reads the directory of an export of that size. The logs stay where they are.
func OpenPast(src io.ReaderAt, size int64) (*Past, error) {
	var end [8]byte
	if size < int64(len(end)) {
		return nil, errExport
	}
	if _, err := src.ReadAt(end[:], size-int64(len(end))); err != nil && err != io.EOF {
		return nil, err
	}
	n, before := binary.BigEndian.Uint64(end[:]), size-int64(len(end))
	if n > maxDirectory || int64(n) > before {
		return nil, errExport
	}
	text := make([]byte, n)
	logs := before - int64(n)
	if _, err := src.ReadAt(text, logs); err != nil && err != io.EOF {
		return nil, err
	}
	var d directory
	if err := json.Unmarshal(text, &d); err != nil || d.Version != exportVersion {
		return nil, errExport
	}
	p := &Past{Result: d.Result, src: src, logs: map[string]savedLog{}, infos: map[string]api.ExecInfo{}}
	within := func(at, n int64) bool { return at >= 0 && n >= 0 && at <= logs && n <= logs-at }
	for _, l := range d.Logs {
		if !within(l.At, l.Len) {
			return nil, errExport
		}
		p.logs[l.ExecID] = l
	}
	if d.Screen != nil && !within(d.Screen.At, d.Screen.Len) {
		return nil, errExport
	}
	p.screen = d.Screen
	for _, info := range d.Result.Execs {
		p.infos[info.ExecID] = info
	}
	return p, nil
}

// Screen is the last screen of a terminal; nil when the session was none.
func (p *Past) Screen() (*ExportedScreen, error) {
	if p.screen == nil {
		return nil, nil
	}
	data := make([]byte, p.screen.Len)
	if _, err := io.ReadFull(io.NewSectionReader(p.src, p.screen.At, p.screen.Len), data); err != nil {
		return nil, err
	}
	return &ExportedScreen{SnapshotResult: p.screen.SnapshotResult, Data: data}, nil
}

// Load brings the output of one command into a store. It takes memory and file there
// until Release.
func (p *Past) Load(store *output.Store, id string) (*PastExec, error) {
	l, ok := p.logs[id]
	info, known := p.infos[id]
	if !ok || !known {
		return nil, api.Errorf(api.CodeExecNotFound, "exec %q: not found", id)
	}
	log, err := output.Load(store, bufio.NewReaderSize(io.NewSectionReader(p.src, l.At, l.Len), 64<<10))
	if err != nil {
		return nil, err
	}
	e := &Exec{id: id, session: info.SessionID, log: log, state: info.State, outcome: info.Outcome, mark: l.Mark}
	if l.Error != nil {
		e.err = l.Error
	}
	return &PastExec{e}, nil
}

// PastExec is a command of a session that has ended, with its output. It is safe for
// concurrent use.
type PastExec struct{ exec *Exec }

// Read answers exec.read.
func (x *PastExec) Read(p link.ReadParams) (link.ReadResult, []byte, error) {
	return x.exec.read(context.Background(), p, nil)
}

// Output answers exec.output.
func (x *PastExec) Output(p link.OutputParams) (link.OutputResult, []byte, error) {
	return x.exec.output(context.Background(), p)
}

// Kept is how many bytes it takes.
func (x *PastExec) Kept() int64 {
	memory, file := x.exec.log.Kept()
	return memory + file
}

// Release gives back what it takes. Nothing can be read afterwards.
func (x *PastExec) Release() { x.exec.log.Release() }
