package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/trl-dev/trl/api"
)

// maxJournalFile is the usual maxFile of a Journal.
const maxJournalFile = 2 << 20

// maxSeq is more than there will ever be, and leaves room behind it.
const maxSeq = 1 << 62

// olderSuffix is added to the name of the older file.
const olderSuffix = ".1"

// A journalLine is one line of the file: an event, or at the beginning of a file what
// was known then.
type journalLine struct {
	api.StreamEvent
	Begin *beginning `json:"begin,omitempty"`
}

// beginning is what the events before a file came to.
type beginning struct {
	Seq      int64             `json:"seq"` // the last of them
	Sessions map[string]*known `json:"sessions"`
}

// OpenJournal opens the journal in a file and its older one, and makes what is not
// there. A last line that was not written completely is cut off; lines that make no
// sense are passed over. An empty path gives a journal in memory alone.
func OpenJournal(path string, log *slog.Logger) (*Journal, error) {
	j := newJournal(log)
	if path == "" {
		return j, nil
	}
	j.path = path
	if _, err := j.readFile(path + olderSuffix); err != nil {
		return nil, err
	}
	good, err := j.readFile(path)
	if err != nil {
		return nil, err
	}
	j.written = j.last
	if good == 0 {
		err = j.begin(j.snapshot())
	} else {
		err = j.goOn(good)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return j, nil
}

// goOn opens a file to write behind its whole lines.
func (j *Journal) goOn(good int64) error {
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	j.file, j.size = f, good
	return errors.Join(f.Chmod(0o600), f.Truncate(good))
}

// readFile reads a file back and returns how many bytes of it are whole lines.
func (j *Journal) readFile(path string) (good int64, err error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("journal: %w", err)
	}
	n, bad := j.read(text)
	if bad > 0 {
		j.log.Warn("journal has invalid lines", "path", path, "lines", bad)
	}
	return int64(n), nil
}

// read takes over what a file has. It returns the length of its whole lines, and how
// many of these make no sense.
func (j *Journal) read(text []byte) (good, bad int) {
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			break // torn by the end of a daemon
		}
		good += len(line)
		var l journalLine
		if err := json.Unmarshal(line, &l); err != nil || !j.take(&l) {
			bad++
		}
	}
	return good, bad
}

// take takes over one line and reports whether it made sense.
func (j *Journal) take(l *journalLine) bool {
	if b := l.Begin; b != nil {
		if b.Seq < j.last || b.Seq > maxSeq {
			return false
		}
		if b.Seq > j.last {
			j.events, j.last = nil, b.Seq
		}
		j.known = map[string]*known{}
		for id, k := range b.Sessions {
			if id != "" && k != nil {
				k.complete()
				j.known[id] = k
			}
		}
		return true
	}
	ev := l.StreamEvent
	if ev.Seq <= j.last || ev.Seq > maxSeq || ev.SessionID == "" || ev.At == nil || !slices.Contains(api.EventTypes, ev.Type) {
		return false
	}
	if ev.Seq != j.last+1 {
		j.events = nil // readers are told that there is a hole
	}
	j.last = ev.Seq
	j.apply(&ev)
	j.keep(ev)
	return true
}

// snapshot is the beginning of a new file. mu is held, or no other goroutine has the journal
// yet.
func (j *Journal) snapshot() *beginning {
	b := &beginning{Seq: j.last, Sessions: make(map[string]*known, len(j.known))}
	for id, k := range j.known {
		b.Sessions[id] = k.clone()
	}
	return b
}

// write makes sure that the events up to a number are in the file.
func (j *Journal) write(last int64) {
	j.fileMu.Lock()
	defer j.fileMu.Unlock()
	if j.file == nil || j.written >= last {
		return
	}
	j.mu.Lock()
	// Where many could not be written, the oldest of them are gone from memory too.
	unwritten := min(int64(len(j.events)), j.last-j.written)
	events := slices.Clone(j.events[int64(len(j.events))-unwritten:])
	var next *beginning
	if j.size > j.maxFile {
		next = j.snapshot()
	}
	j.mu.Unlock()

	err := j.append(events)
	if err == nil && next != nil {
		err = j.rotate(next)
	}
	if err != nil && !j.failed {
		j.log.Error("journal cannot be written; current events will be lost at a restart", "path", j.path, "error", err)
	}
	j.failed = err != nil
}

func (j *Journal) append(events []api.StreamEvent) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for i := range events {
		if err := encoder.Encode(journalLine{StreamEvent: events[i]}); err != nil {
			return err
		}
	}
	n, err := j.file.Write(text.Bytes())
	j.size += int64(n)
	if err != nil {
		// What follows must not be glued to half a line.
		if j.file.Truncate(j.size-int64(n)) == nil {
			j.size -= int64(n)
		}
		return err
	}
	j.written = events[len(events)-1].Seq
	return nil
}

// rotate makes the file the older one and begins a new one.
func (j *Journal) rotate(next *beginning) error {
	if err := os.Rename(j.path, j.path+olderSuffix); err != nil {
		return err
	}
	_ = j.file.Close()
	return j.begin(next)
}

// begin makes a new file.
func (j *Journal) begin(b *beginning) error {
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		j.file = nil
		return err
	}
	text, err := json.Marshal(struct {
		Begin *beginning `json:"begin"`
	}{b})
	if err == nil {
		text = append(text, '\n')
		_, err = f.Write(text)
	}
	j.file, j.size = f, int64(len(text))
	return err
}
