package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/trl-dev/trl/api"
)

// maxFileSize is the default of Journal.maxFile.
const maxFileSize = 2 << 20

// maxSeq bounds the numbers that are believed when a file is read. It leaves room for more events.
const maxSeq = 1 << 62

// olderSuffix is added to the name of the older file.
const olderSuffix = ".1"

// A line is one line of the file: an event or, at the beginning of a file, the published state
// at that time.
type line struct {
	api.StreamEvent
	Begin *beginning `json:"begin,omitempty"`
	// Settings identifies the settings of the session after a session.created or session.updated.
	Settings string `json:"settings,omitempty"`
}

// beginning is the result of the events before a file.
type beginning struct {
	Seq       int64                        `json:"seq"` // the last of them
	Sessions  map[string]*published        `json:"sessions"`
	Network   map[string]api.NetworkCounts `json:"network,omitempty"`
	Dialogues map[string]PublishedDialogue `json:"dialogues,omitempty"`
}

// Open opens the journal in a file and the older file beside it, and creates the file if it does
// not exist. It cuts off an incomplete last line and skips invalid lines. With an empty path the
// journal is in memory only.
func Open(path string, log *slog.Logger) (*Journal, error) {
	j := New(log)
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
		err = j.createFile(j.snapshotLocked())
	} else {
		err = j.reopen(good)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return j, nil
}

// reopen opens an existing file to append behind its complete lines.
func (j *Journal) reopen(good int64) error {
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	j.file, j.size = f, good
	return errors.Join(f.Chmod(0o600), f.Truncate(good))
}

// readFile reads a file and returns how many bytes of it are complete lines.
func (j *Journal) readFile(path string) (good int64, err error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("journal: %w", err)
	}
	n, bad := j.readLines(text)
	if bad > 0 {
		j.log.Warn("journal has invalid lines", "path", path, "lines", bad)
	}
	return int64(n), nil
}

// readLines applies the lines of a file. It returns the length of the complete lines, and how
// many of them are invalid.
func (j *Journal) readLines(text []byte) (good, bad int) {
	for row := range bytes.Lines(text) {
		if row[len(row)-1] != '\n' {
			break // the daemon died while it wrote
		}
		good += len(row)
		var l line
		if err := json.Unmarshal(row, &l); err != nil || !j.applyLine(&l) {
			bad++
		}
	}
	return good, bad
}

// applyLine applies one line and reports whether it is valid.
func (j *Journal) applyLine(l *line) bool {
	if b := l.Begin; b != nil {
		if b.Seq < j.last || b.Seq > maxSeq {
			return false
		}
		if b.Seq > j.last {
			j.events, j.last = nil, b.Seq
		}
		j.sessions = map[string]*published{}
		for id, k := range b.Sessions {
			if id != "" && k != nil {
				k.complete()
				j.sessions[id] = k
			}
		}
		j.network = map[string]api.NetworkCounts{}
		maps.Copy(j.network, b.Network)
		j.dialogues = map[string]PublishedDialogue{}
		for id, d := range b.Dialogues {
			if id != "" {
				j.dialogues[id] = d
			}
		}
		return true
	}
	ev := l.StreamEvent
	if ev.Seq <= j.last || ev.Seq > maxSeq || ev.SessionID == "" && ev.DialogueID == "" || ev.At == nil || !slices.Contains(api.EventTypes, ev.Type) {
		return false
	}
	if ev.Seq != j.last+1 {
		j.events = nil // readers see the gap, because first is higher then
	}
	j.last = ev.Seq
	j.applyLocked(&ev)
	if p := j.sessions[ev.SessionID]; p != nil && l.Settings != "" {
		p.Settings = l.Settings
	}
	j.keepLocked(ev)
	return true
}

// snapshotLocked returns the beginning of a new file. Open needs no lock for it, because no other
// goroutine has the journal yet.
func (j *Journal) snapshotLocked() *beginning {
	b := &beginning{Seq: j.last, Sessions: make(map[string]*published, len(j.sessions)), Network: maps.Clone(j.network), Dialogues: maps.Clone(j.dialogues)}
	for id, k := range j.sessions {
		b.Sessions[id] = k.clone()
	}
	return b
}

// write appends the events that are not in the file yet, if that of the number last is one of them.
func (j *Journal) write(last int64) {
	j.fileMu.Lock()
	defer j.fileMu.Unlock()
	if j.file == nil || j.written >= last {
		return
	}
	j.mu.Lock()
	// If many events could not be written, memory has dropped the oldest of them too.
	unwritten := min(int64(len(j.events)), j.last-j.written)
	lines := make([]line, unwritten)
	for i, ev := range j.events[int64(len(j.events))-unwritten:] {
		lines[i].StreamEvent = ev
		if p := j.sessions[ev.SessionID]; p != nil && (ev.Type == api.EventSessionCreated || ev.Type == api.EventSessionUpdated) {
			lines[i].Settings = p.Settings // those of the last such event, which is one of the lines
		}
	}
	var next *beginning
	if j.size > j.maxFile {
		next = j.snapshotLocked()
	}
	j.mu.Unlock()

	err := j.appendLines(lines)
	if err == nil && next != nil {
		err = j.rotate(next)
	}
	if err != nil && !j.failed {
		j.log.Error("journal cannot be written; current events will be lost at a restart", "path", j.path, "error", err)
	}
	j.failed = err != nil
}

func (j *Journal) appendLines(lines []line) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for i := range lines {
		if err := encoder.Encode(lines[i]); err != nil {
			return err
		}
	}
	n, err := j.file.Write(text.Bytes())
	j.size += int64(n)
	if err != nil {
		// The next line must not follow half a line.
		if j.file.Truncate(j.size-int64(n)) == nil {
			j.size -= int64(n)
		}
		return err
	}
	j.written = lines[len(lines)-1].Seq
	return nil
}

// rotate renames the file to the older one and creates a new one.
func (j *Journal) rotate(next *beginning) error {
	if err := os.Rename(j.path, j.path+olderSuffix); err != nil {
		return err
	}
	_ = j.file.Close()
	return j.createFile(next)
}

// createFile creates a new file that starts with b.
func (j *Journal) createFile(b *beginning) error {
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
