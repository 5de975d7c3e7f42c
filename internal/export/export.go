// Package export is the format in which a runner hands over the readable remains of its session
// when the session ends, and the reader of that format. It also reads the output of a single
// command, in the same way for a live session and for one that has ended.
package export

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// maxDirectory bounds the directory, which is read into memory at once.
const maxDirectory = 64 << 20

var errFormat = errors.New("not an export of a session")

// Session is a session that has ended, read from its export. It is safe for concurrent use.
type Session struct {
	Result link.DestroyResult
	src    io.ReaderAt
	logs   map[string]savedLog
	screen *savedScreen
	infos  map[string]api.ExecInfo
}

// Open reads the directory of an export that has size bytes. The logs are read by Load.
func Open(src io.ReaderAt, size int64) (*Session, error) {
	var end [8]byte
	if size < int64(len(end)) {
		return nil, errFormat
	}
	if _, err := src.ReadAt(end[:], size-int64(len(end))); err != nil && err != io.EOF {
		return nil, err
	}
	n, before := binary.BigEndian.Uint64(end[:]), size-int64(len(end))
	if n > maxDirectory || int64(n) > before {
		return nil, errFormat
	}
	text := make([]byte, n)
	logs := before - int64(n)
	if _, err := src.ReadAt(text, logs); err != nil && err != io.EOF {
		return nil, err
	}
	var d directory
	if err := json.Unmarshal(text, &d); err != nil || d.Version != version {
		return nil, errFormat
	}
	s := &Session{Result: d.Result, src: src, logs: map[string]savedLog{}, infos: map[string]api.ExecInfo{}}
	within := func(at, n int64) bool { return at >= 0 && n >= 0 && at <= logs && n <= logs-at }
	for _, l := range d.Logs {
		if !within(l.At, l.Len) {
			return nil, errFormat
		}
		s.logs[l.ExecID] = l
	}
	if d.Screen != nil && !within(d.Screen.At, d.Screen.Len) {
		return nil, errFormat
	}
	s.screen = d.Screen
	for _, info := range d.Result.Execs {
		s.infos[info.ExecID] = info
	}
	return s, nil
}

// Screen returns the last screen of a terminal; nil for a session of another kind.
func (s *Session) Screen() (*Screen, error) {
	if s.screen == nil {
		return nil, nil
	}
	data := make([]byte, s.screen.Len)
	if _, err := io.ReadFull(io.NewSectionReader(s.src, s.screen.At, s.screen.Len), data); err != nil {
		return nil, err
	}
	return &Screen{SnapshotResult: s.screen.SnapshotResult, Data: data}, nil
}

// Load brings the output of one command into a store, where it takes memory and disk until the
// caller releases the log.
func (s *Session) Load(store *output.Store, id string) (*Exec, error) {
	l, ok := s.logs[id]
	info, known := s.infos[id]
	if !ok || !known {
		return nil, api.Errorf(api.CodeExecNotFound, "exec %q: not found", id)
	}
	log, err := output.Load(store, bufio.NewReaderSize(io.NewSectionReader(s.src, l.At, l.Len), 64<<10))
	if err != nil {
		return nil, err
	}
	status := Status{State: info.State, Outcome: info.Outcome, Mark: l.Mark}
	if l.Error != nil {
		status.Err = l.Error
	}
	return Ended(id, log, status), nil
}
