package dialogue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/trl-dev/trl/api"
)

// Events streams the events after a number.
func (d *Dialogue) Events(ctx context.Context, p api.DialogueEventsParams) (api.Stream, error) {
	if err := d.index(); err != nil {
		return nil, err
	}
	size, seq, _, _ := d.record.state()
	if p.AfterSeq > seq { // the event may exist and not be written yet
		d.mu.Lock()
		seq = max(seq, d.seq)
		d.mu.Unlock()
	}
	if p.AfterSeq > seq {
		return nil, api.InvalidParam("after_seq", "%d is beyond the last event of dialogue %q, which is %d", p.AfterSeq, d.id, seq)
	}
	f, err := d.openEvents()
	if err != nil && size > 0 {
		return nil, err
	}
	s := &stream{
		dialogue: d, file: f, params: p, after: p.AfterSeq,
		start: api.StreamStart{StreamID: d.id + "/" + strconv.FormatInt(d.registry.streams.Add(1), 10), DialogueID: d.id, SessionID: d.Info().SessionID},
	}
	s.at, _ = d.record.offsetBefore(p.AfterSeq + 1)
	s.ctx, s.cancel = context.WithCancel(ctx)
	if s.counts() {
		d.countFollower(1)
	}
	context.AfterFunc(s.ctx, s.leave)
	return s, nil
}

// index loads the offsets of the events, if they are not known: an ended dialogue of an earlier
// daemon has none in memory.
func (d *Dialogue) index() error {
	if d.record.isIndexed() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.record.isIndexed() || d.removed {
		return nil
	}
	if err := d.record.load(func(api.DialogueEvent) {}); err != nil {
		return d.unreadable(err)
	}
	return nil
}

// stream is one reader of the events. It has no goroutine: Recv reads the file, so a slow
// reader holds no memory and delays no other reader. Only one goroutine at a time may call
// Recv; Close may be called at any time.
type stream struct {
	ctx      context.Context
	cancel   context.CancelFunc
	dialogue *Dialogue
	start    api.StreamStart
	params   api.DialogueEventsParams
	left     sync.Once

	// Used by Recv alone.
	at    int64  // offset of the next event in the file
	ahead []byte // bytes of the file from at on
	after int64  // the number of the last event that was pushed or skipped
	ended bool

	mu   sync.Mutex
	file *os.File // guarded by mu; nil after leave, and before the first event is written
}

func (s *stream) Start() api.StreamStart { return s.start }

func (s *stream) Close() error {
	s.cancel()
	return nil
}

// counts reports whether the reader is a follower of the dialogue.
func (s *stream) counts() bool { return !s.params.NoFollow && !s.params.Passive }

func (s *stream) leave() {
	s.left.Do(func() {
		s.mu.Lock()
		if s.file != nil {
			s.file.Close()
			s.file = nil
		}
		s.mu.Unlock()
		if s.counts() {
			s.dialogue.countFollower(-1)
		}
	})
}

// Recv returns the next event. The last one has the type end.
func (s *stream) Recv() (api.StreamEvent, error) {
	for {
		if s.ended {
			return api.StreamEvent{}, io.EOF
		}
		if err := s.ctx.Err(); err != nil {
			return api.StreamEvent{}, err
		}
		size, _, over, news := s.dialogue.record.state()
		if s.at < size {
			ev, err := s.read(size)
			if err != nil {
				return api.StreamEvent{}, err
			}
			if ev.Seq <= s.after || !s.params.Selects(ev.Type) {
				continue
			}
			s.after = ev.Seq
			return api.StreamEvent{StreamID: s.start.StreamID, Seq: ev.Seq, Type: api.EventDialogue, DialogueID: s.dialogue.id, Event: &ev}, nil
		}
		if over || s.params.NoFollow {
			s.ended = true
			return api.StreamEvent{StreamID: s.start.StreamID, Seq: s.after, Type: api.EventEnd, DialogueID: s.dialogue.id}, nil
		}
		select {
		case <-news:
		case <-s.ctx.Done():
		case <-s.dialogue.registry.done:
			return api.StreamEvent{}, api.ErrDaemonEnding
		}
	}
}

// read reads the next event. The events end at size.
func (s *stream) read(size int64) (ev api.DialogueEvent, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		if s.ctx.Err() != nil {
			return ev, s.ctx.Err()
		}
		if s.file, err = s.dialogue.openEvents(); err != nil {
			return ev, err
		}
	}
	n := bytes.IndexByte(s.ahead, '\n')
	for n < 0 { // an event may be much longer than readAhead
		have := int64(len(s.ahead))
		more := make([]byte, min(max(readAhead, 2*have), size-s.at))
		if _, err := s.file.ReadAt(more, s.at); err != nil {
			return ev, s.dialogue.unreadable(err)
		}
		s.ahead = more
		if n = bytes.IndexByte(more, '\n'); n < 0 && int64(len(more)) == size-s.at {
			return ev, s.dialogue.unreadable(io.ErrUnexpectedEOF)
		}
	}
	if err := json.Unmarshal(s.ahead[:n], &ev); err != nil {
		return ev, s.dialogue.unreadable(err)
	}
	s.ahead = s.ahead[n+1:]
	s.at += int64(n) + 1
	return ev, nil
}

// readAhead is how many bytes one read of the file usually returns.
const readAhead = 32 << 10

// openEvents opens the file of events for a reader.
func (d *Dialogue) openEvents() (*os.File, error) {
	f, err := os.Open(filepath.Join(d.record.dir, eventsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, api.Errorf(api.CodeDialogueNotFound, "dialogue %q: is no longer kept", d.id)
	}
	if err != nil {
		return nil, d.unreadable(err)
	}
	return f, nil
}

func (d *Dialogue) unreadable(err error) error {
	return api.Errorf(api.CodeInternal, "dialogue %q: its events cannot be read: %s", d.id, err)
}
