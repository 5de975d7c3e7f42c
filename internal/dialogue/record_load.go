package dialogue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"github.com/trl-dev/trl/api"
)

// damage is the error of a record with an unreadable event.
type damage struct {
	at, seq int64 // the offset of the unreadable event, and the number of the last event before it
}

func (e *damage) Error() string {
	return fmt.Sprintf("%s is unreadable at byte %d, after event %d", eventsFile, e.at, e.seq)
}

// load calls each with every event, and indexes them. An incomplete last line, which is left when
// the machine stops during a write, is cut off. load stops at an unreadable event and returns a
// *damage.
func (r *record) load(each func(api.DialogueEvent)) error {
	f, err := os.Open(filepath.Join(r.dir, eventsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var size, seq int64
	var marks []int64
	over := false
	in := bufio.NewReaderSize(f, 1<<16)
	for err == nil {
		var text []byte
		if text, err = in.ReadBytes('\n'); err != nil {
			if err == io.EOF && len(text) > 0 {
				err = os.Truncate(f.Name(), size)
			}
			break
		}
		var ev api.DialogueEvent
		if json.Unmarshal(text, &ev) != nil || ev.Seq != seq+1 {
			err = &damage{size, seq}
			break
		}
		if seq%markEvery == 0 {
			marks = append(marks, size)
		}
		seq, size, over = ev.Seq, size+int64(len(text)), ev.Type == api.DialogueEventEnded
		each(ev)
	}
	if err == io.EOF {
		err = nil
	}
	r.pending = nil // events that could not be written before are lost
	r.mu.Lock()
	defer r.mu.Unlock()
	r.indexed, r.size, r.marks, r.seq, r.ended = err == nil, size, marks, seq, over
	return err
}

// repair loads the events before more are appended. An unreadable part is moved to a separate file.
func (r *record) repair(log *slog.Logger, each func(api.DialogueEvent)) error {
	err := r.load(each)
	var bad *damage
	if !errors.As(err, &bad) {
		return err
	}
	log.Error("events are damaged; moved the unreadable part to a separate file", "error", err)
	if err := r.putAside(bad.at); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.indexed = true
	return nil
}

// putAside moves the events from an offset on to a separate file.
func (r *record) putAside(at int64) error {
	path := filepath.Join(r.dir, eventsFile)
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path+".damaged", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(from, at, math.MaxInt64-at))
	if e := to.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Truncate(path, at)
	}
	return err
}

// isIndexed reports whether the offsets of the events are known.
func (r *record) isIndexed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.indexed
}

// pastEvents reads recorded events one at a time, because there may be very many.
type pastEvents struct {
	file *os.File
	in   *json.Decoder
	next *api.DialogueEvent
}

// since returns the events that are in the record now, from a number on.
func (r *record) since(seq int64) (*pastEvents, error) {
	f, err := os.Open(filepath.Join(r.dir, eventsFile))
	if errors.Is(err, os.ErrNotExist) || seq <= 0 {
		f.Close()
		return &pastEvents{}, nil
	}
	if err != nil {
		return nil, err
	}
	at, _ := r.offsetBefore(seq)
	size, _, _, _ := r.state()
	t := &pastEvents{file: f, in: json.NewDecoder(bufio.NewReaderSize(io.NewSectionReader(f, at, size-at), 1<<16))}
	for ev := t.head(); ev != nil && ev.Seq < seq; ev = t.head() {
		t.pop()
	}
	return t, nil
}

// head returns the next event without consuming it; nil at the end.
func (t *pastEvents) head() *api.DialogueEvent {
	if t.next == nil && t.in != nil {
		ev := new(api.DialogueEvent)
		if t.in.Decode(ev) != nil {
			t.in = nil
			return nil
		}
		t.next = ev
	}
	return t.next
}

// pop consumes the next event.
func (t *pastEvents) pop() *api.DialogueEvent {
	ev := t.head()
	t.next = nil
	return ev
}

func (t *pastEvents) close() { t.file.Close() }

// loadCalls returns the calls of a process. An incomplete last line is cut off.
func (r *record) loadCalls(epoch int) ([]callAt, error) {
	text, err := os.ReadFile(r.path("calls", epoch))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []callAt
	var size int64
	for one := range bytes.Lines(text) {
		if !bytes.HasSuffix(one, []byte("\n")) {
			return list, os.Truncate(r.path("calls", epoch), size)
		}
		var c callAt
		if err := json.Unmarshal(one, &c); err != nil {
			return list, fmt.Errorf("calls.%d is unreadable at byte %d: %w", epoch, size, err)
		}
		list = append(list, c)
		size += int64(len(one))
	}
	return list, nil
}
