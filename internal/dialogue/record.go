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
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// record is what is kept of a dialogue, in a directory of its own that only its owner can
// read:
//
//	dialogue.json   what it is (about)
//	events.jsonl    the events, in order
//	stdout.N        what the Nth process wrote, byte for byte
//	stdin.N         what was written to it
//	calls.N         the calls that were made to it, each with the offset of stdout by then
//
// stdout and calls of a process, taken together, are all its protocol has seen: from them
// it is brought back to where it was. What is written is in the hands of the system when
// the writing call returns, so it survives the daemon.
//
// Appending is done by one goroutine at a time; everything else is safe for concurrent use.
type record struct {
	dir string

	events, stdout, stdin, calls *os.File // of the process that lives; nil for none
	pending                      []byte   // events that are to be written

	mu      sync.Mutex
	indexed bool          // guarded by mu; size, marks and seq are those of the file
	size    int64         // guarded by mu; of events.jsonl, in whole lines
	marks   []int64       // guarded by mu; where every markEvery-th event begins
	seq     int64         // guarded by mu; how many events there are
	ended   bool          // guarded by mu; the last of them is the end of a process
	changed chan struct{} // guarded by mu; closed when any of these has changed
}

const markEvery = 64

// about is dialogue.json.
type about struct {
	ID        string    `json:"dialogue_id"`
	CreatedAt time.Time `json:"created_at"`
	// Params are those of dialogue.create, without the environment and the prompt.
	Params    api.DialogueCreateParams `json:"params"`
	Epoch     int                      `json:"epoch"`
	SessionID string                   `json:"session_id"`
	ExecID    string                   `json:"exec_id"`
	// Created says that dialogue.create was answered.
	Created bool `json:"created"`
	// Stray says that there may be a session that nobody owns: one that was being started,
	// or that could not be reached when it was to be ended.
	Orphan bool `json:"stray,omitempty"`
	// Options are what the protocol of this process began with.
	Options agent.Options `json:"options"`
	// Info is as it was when its last process ended; nil while one lives.
	Info *api.DialogueInfo `json:"info,omitempty"`
}

// callAt is one line of calls.N.
type callAt struct {
	Offset int64      `json:"offset"`
	Call   agent.Call `json:"call"`
}

const (
	aboutFile  = "dialogue.json"
	eventsFile = "events.jsonl"
)

// newRecord makes the directory of a dialogue.
func newRecord(dir string) (*record, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return &record{dir: dir, indexed: true, changed: make(chan struct{})}, nil
}

// openRecord finds a dialogue again.
func openRecord(dir string) (*record, about, error) {
	r := &record{dir: dir, changed: make(chan struct{})}
	var a about
	text, err := os.ReadFile(filepath.Join(dir, aboutFile))
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		return nil, a, err
	}
	if a.ID != filepath.Base(dir) {
		return nil, a, fmt.Errorf("%s: is about %q", aboutFile, a.ID)
	}
	if a.Info != nil { // nothing will be written, so the events need not be read now
		stat, err := os.Stat(filepath.Join(dir, eventsFile))
		if err != nil {
			return nil, a, err
		}
		r.size, r.seq, r.ended = stat.Size(), a.Info.Seq, true
	}
	return r, a, nil
}

// emptyRecord reports whether a directory has only what is there before dialogue.json is.
func emptyRecord(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, aboutFile))
	info, events := os.Stat(filepath.Join(dir, eventsFile))
	return errors.Is(err, os.ErrNotExist) && (errors.Is(events, os.ErrNotExist) || events == nil && info.Size() == 0)
}

// save writes dialogue.json.
func (r *record) save(a about) error {
	a.Params.Env, a.Params.Prompt = nil, ""
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	temporary := filepath.Join(r.dir, aboutFile+".new")
	if err := os.WriteFile(temporary, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(r.dir, aboutFile))
}

func (r *record) path(name string, epoch int) string {
	return filepath.Join(r.dir, fmt.Sprintf("%s.%d", name, epoch))
}

// begin opens the files of a process.
func (r *record) begin(epoch int) (err error) {
	open := func(path string, flags int) *os.File {
		if err != nil {
			return nil
		}
		var f *os.File
		f, err = os.OpenFile(path, flags|os.O_RDWR|os.O_CREATE, 0o600)
		return f
	}
	r.events = open(filepath.Join(r.dir, eventsFile), os.O_APPEND)
	r.stdout = open(r.path("stdout", epoch), 0)
	r.stdin = open(r.path("stdin", epoch), os.O_APPEND)
	r.calls = open(r.path("calls", epoch), os.O_APPEND)
	if err != nil {
		r.end()
	}
	return err
}

// end closes them.
func (r *record) end() {
	for _, f := range []**os.File{&r.events, &r.stdout, &r.stdin, &r.calls} {
		if *f != nil {
			(*f).Close()
			*f = nil
		}
	}
}

// remove removes everything. What is left of it, should that be cut short, is recognised by
// its name.
func (r *record) remove() error {
	r.end()
	gone := filepath.Join(filepath.Dir(r.dir), removedPrefix+filepath.Base(r.dir))
	if err := os.Rename(r.dir, gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

const removedPrefix = "removed-"

// damaged is where a record stops making sense, before its end.
type damage struct {
	at, seq int64 // the offset, and the last event before it
}

func (e *damage) Error() string {
	return fmt.Sprintf("%s makes no sense at byte %d, behind event %d", eventsFile, e.at, e.seq)
}

// load calls each with every event there is, and finds out where they are. A last line
// that is not whole, because the machine stopped while it was written, is cut off. Behind
// what makes no sense nothing is read; the error says where that is.
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
	r.pending = nil // what could not be written when there was no room is lost
	r.mu.Lock()
	defer r.mu.Unlock()
	r.indexed, r.size, r.marks, r.seq, r.ended = err == nil, size, marks, seq, over
	return err
}

// repair is load for who goes on writing: what makes no sense is put aside.
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

// putAside moves what is behind an offset of the events to a file of its own.
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

// isIndexed reports whether it is known where the events are.
func (r *record) isIndexed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.indexed
}

// pastEvents reads events from a record, one at a time: there may be very many.
type pastEvents struct {
	file *os.File
	in   *json.Decoder
	next *api.DialogueEvent
}

// since reads from an event on what is there now.
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

// head is the next event, without taking it; nil at the end.
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

// pop takes the next event.
func (t *pastEvents) pop() *api.DialogueEvent {
	ev := t.head()
	t.next = nil
	return ev
}

func (t *pastEvents) close() { t.file.Close() }

// add appends an event; write makes it last.
func (r *record) add(ev api.DialogueEvent) error {
	text, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	at := r.size + int64(len(r.pending))
	r.pending = append(append(r.pending, text...), '\n')
	r.mu.Lock()
	defer r.mu.Unlock()
	if (ev.Seq-1)%markEvery == 0 {
		r.marks = append(r.marks, at)
	}
	return nil
}

// write writes what was added, up to the event of that number, in one piece.
func (r *record) write(seq int64, over bool) error {
	if len(r.pending) == 0 {
		return nil
	}
	err := appendTo(r.events, r.pending)
	if err != nil && !over {
		return err // it is tried again with the next
	}
	r.mu.Lock()
	if err == nil {
		r.size += int64(len(r.pending))
		r.seq = seq
	}
	r.ended = over // readers must not wait for what will never be there
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	if r.pending = r.pending[:0]; cap(r.pending) > 1<<20 {
		r.pending = nil
	}
	return err
}

// appendTo appends all of data or nothing: half a line would spoil everything behind it.
func appendTo(f *os.File, data []byte) error {
	n, err := f.Write(data)
	if err != nil && n > 0 {
		if info, e := f.Stat(); e == nil {
			_ = f.Truncate(info.Size() - int64(n))
		}
	}
	return err
}

// addCall appends a call.
func (r *record) addCall(c callAt) error {
	text, err := json.Marshal(c)
	if err == nil {
		err = appendTo(r.calls, append(text, '\n'))
	}
	return err
}

// loadCalls returns the calls of a process. A last line that is not whole is cut off.
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
			return list, fmt.Errorf("calls.%d makes no sense at byte %d: %w", epoch, size, err)
		}
		list = append(list, c)
		size += int64(len(one))
	}
	return list, nil
}

// state is where the events end, and a channel that is closed when there are more.
func (r *record) state() (size, seq int64, over bool, news <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size, r.seq, r.ended, r.changed
}

// offsetBefore is where an event begins that is not behind that of the number, and its number.
func (r *record) offsetBefore(seq int64) (at, first int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := min((seq-1)/markEvery, int64(len(r.marks))-1); i >= 0 {
		return r.marks[i], i*markEvery + 1
	}
	return 0, 1
}

// totalBytes is how much the directory takes.
func (r *record) totalBytes() (total int64) {
	list, _ := os.ReadDir(r.dir)
	for _, e := range list {
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}

// fileBytes is the size of a file of a process.
func (r *record) fileBytes(name string, epoch int) int64 {
	info, err := os.Stat(r.path(name, epoch))
	if err != nil {
		return 0
	}
	return info.Size()
}

// raw reads a piece of a file of a process.
func (r *record) raw(name string, epoch int, offset, limit int64) (data []byte, total int64, err error) {
	f, err := os.Open(r.path(name, epoch))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	total = info.Size()
	data = make([]byte, max(min(limit, total-offset), 0))
	n, err := f.ReadAt(data, offset)
	if err == io.EOF || len(data) == 0 {
		err = nil
	}
	return data[:n], total, err
}
