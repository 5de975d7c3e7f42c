package dialogue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// record is a dialogue on the disk, in a directory of its own that only its owner can read:
//
//	dialogue.json   the description of the dialogue (about)
//	events.jsonl    the events, in order
//	stdout.N        the stdout of the Nth process, byte for byte
//	stdin.N         the input that was sent to it
//	calls.N         the calls that were made to it, each with the offset of stdout at that time
//	times.N         when its output was received and its input was sent (see moment)
//
// The stdout and the calls of a process are all that its protocol has seen, so they are enough to
// bring the protocol back to where it was (see replay). Data is with the kernel when a writing
// method returns, so it survives the daemon.
//
// Only one goroutine at a time may append; everything else is safe for concurrent use.
type record struct {
	dir string

	events, stdout, stdin, calls *os.File // open while a process lives; otherwise nil
	times                        *os.File // the same
	pending                      []byte   // events that add has encoded and write has not written

	mu      sync.Mutex
	indexed bool          // guarded by mu; size, marks and seq match the file
	size    int64         // guarded by mu; bytes of the complete lines of events.jsonl
	marks   []int64       // guarded by mu; the offset of every markEvery-th event
	seq     int64         // guarded by mu; the number of the last event
	ended   bool          // guarded by mu; the last event is the end of a process
	changed chan struct{} // guarded by mu; closed, and replaced, when size, seq or ended changes
}

const markEvery = 64

// about is the content of dialogue.json.
type about struct {
	ID        string    `json:"dialogue_id"`
	CreatedAt time.Time `json:"created_at"`
	// Params are the parameters of dialogue.create, without the environment and the prompt.
	Params    api.DialogueCreateParams `json:"params"`
	Epoch     int                      `json:"epoch"`
	SessionID string                   `json:"session_id"`
	ExecID    string                   `json:"exec_id"`
	// Created says that dialogue.create succeeded, so that a client has the id.
	Created bool `json:"created"`
	// Options are the options that the current protocol was created with.
	Options agent.Options `json:"options"`
	// Info is the last snapshot of an ended dialogue; nil while a process lives.
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

// newRecord creates the directory of a dialogue.
func newRecord(dir string) (*record, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return &record{dir: dir, indexed: true, changed: make(chan struct{})}, nil
}

// openRecord opens the record of a dialogue of an earlier daemon.
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
		return nil, a, fmt.Errorf("%s: describes the dialogue %q", aboutFile, a.ID)
	}
	if a.Info != nil { // it has ended: the events are read when a client asks for them
		stat, err := os.Stat(filepath.Join(dir, eventsFile))
		if err != nil {
			return nil, a, err
		}
		r.size, r.seq, r.ended = stat.Size(), a.Info.Seq, true
	}
	return r, a, nil
}

// emptyRecord reports whether a directory has no dialogue.json and no events: its creation was
// interrupted.
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
	r.times = open(r.path("times", epoch), 0)
	if err != nil {
		r.end()
	}
	return err
}

// end closes the files of a process.
func (r *record) end() {
	for _, f := range []**os.File{&r.events, &r.stdout, &r.stdin, &r.calls, &r.times} {
		if *f != nil {
			(*f).Close()
			*f = nil
		}
	}
}

// remove deletes the record. It renames the directory first, so that the next daemon recognises one
// that was only partly deleted.
func (r *record) remove() error {
	r.end()
	gone := filepath.Join(filepath.Dir(r.dir), removedPrefix+filepath.Base(r.dir))
	if err := os.Rename(r.dir, gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

const removedPrefix = "removed-"

// add encodes an event; the next write appends it to the file.
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

// write appends the added events to the file at once. seq is the number of the last of them; over
// says that it is the end of a process.
func (r *record) write(seq int64, over bool) error {
	if len(r.pending) == 0 {
		return nil
	}
	err := appendTo(r.events, r.pending)
	if err != nil && !over {
		return err // the next write tries again
	}
	r.mu.Lock()
	if err == nil {
		r.size += int64(len(r.pending))
		r.seq = seq
	}
	r.ended = over // even if the write failed: readers must not wait for events that will never come
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	if r.pending = r.pending[:0]; cap(r.pending) > 1<<20 {
		r.pending = nil
	}
	return err
}

// appendTo appends all of data or nothing: half a line would make the rest of the file unreadable.
func appendTo(f *os.File, data []byte) error {
	n, err := f.Write(data)
	if err != nil && n > 0 {
		if info, e := f.Stat(); e == nil {
			_ = f.Truncate(info.Size() - int64(n))
		}
	}
	return err
}

// addCall appends a call to calls.N.
func (r *record) addCall(c callAt) error {
	text, err := json.Marshal(c)
	if err == nil {
		err = appendTo(r.calls, append(text, '\n'))
	}
	return err
}

// state returns the end of the events, and a channel that is closed when it changes.
func (r *record) state() (size, seq int64, over bool, news <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size, r.seq, r.ended, r.changed
}

// offsetBefore returns the offset and the number of an indexed event at or before an event.
func (r *record) offsetBefore(seq int64) (at, first int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := min((seq-1)/markEvery, int64(len(r.marks))-1); i >= 0 {
		return r.marks[i], i*markEvery + 1
	}
	return 0, 1
}

// totalBytes returns the size of all files of the record.
func (r *record) totalBytes() (total int64) {
	list, _ := os.ReadDir(r.dir)
	for _, e := range list {
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}

// fileBytes returns the size of a file of a process; 0 if there is none.
func (r *record) fileBytes(name string, epoch int) int64 {
	info, err := os.Stat(r.path(name, epoch))
	if err != nil {
		return 0
	}
	return info.Size()
}

// raw reads a part of a file of a process.
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
