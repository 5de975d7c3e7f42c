package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/link"
)

// Entry is one archived session. It is safe for concurrent use.
type Entry struct {
	archive *Archive
	id      string
	suffix  string // of the names of its files: tmp until the entry is complete
	key     []byte
	since   time.Duration // when it was archived, by the archive's Clock
	size    int64         // of the file
	text    int64         // of the decrypted content
	past    *export.Session
	loading sync.Mutex // held while a log is loaded
}

// ID returns the session's id.
func (e *Entry) ID() string { return e.id }

// Result returns the last report of the session's runner.
func (e *Entry) Result() link.DestroyResult { return e.past.Result }

// Read answers exec.read.
func (e *Entry) Read(p link.ReadParams) (r link.ReadResult, body []byte, err error) {
	err = e.use(p.ExecID, func(x *export.Exec) (err error) {
		r, body, err = x.Read(context.Background(), p, nil)
		return err
	})
	return r, body, err
}

// Output answers exec.output.
func (e *Entry) Output(p link.OutputParams) (r link.OutputResult, body []byte, err error) {
	err = e.use(p.ExecID, func(x *export.Exec) (err error) {
		r, body, err = x.Output(context.Background(), p)
		return err
	})
	return r, body, err
}

// Grep answers exec.grep.
func (e *Entry) Grep(p link.GrepParams) (r link.GrepResult, body []byte, err error) {
	err = e.use(p.ExecID, func(x *export.Exec) (err error) {
		r, body, err = x.Grep(context.Background(), p)
		return err
	})
	return r, body, err
}

// Match answers exec.match.
func (e *Entry) Match(p link.MatchParams) (r link.MatchResult, body []byte, err error) {
	err = e.use(p.ExecID, func(x *export.Exec) (err error) {
		r, body, err = x.Match(context.Background(), p)
		return err
	})
	return r, body, err
}

func (e *Entry) use(id string, read func(*export.Exec) error) error {
	l, err := e.archive.borrow(e, id)
	if err != nil {
		return err
	}
	defer e.archive.giveBack(l)
	return read(l.exec)
}

// Remove removes the session from the archive. It may be called more than once.
func (e *Entry) Remove() {
	a := e.archive
	a.mu.Lock()
	known := a.entries[e.id] == e
	if known {
		delete(a.entries, e.id)
		a.size -= e.size
		a.order = slices.DeleteFunc(a.order, func(x *Entry) bool { return x == e })
	}
	a.mu.Unlock()
	if known {
		e.removeFiles()
		a.giveBack(nil)
	}
}

// Age returns for how long the session has been in the archive, of this daemon or an earlier one.
func (e *Entry) Age() time.Duration { return max(0, e.archive.config.Clock()-e.since) }

// Kept reports whether the session is still in the archive.
func (e *Entry) Kept() bool {
	e.archive.mu.Lock()
	defer e.archive.mu.Unlock()
	return e.archive.entries[e.id] == e
}

func (e *Entry) path() string    { return filepath.Join(e.archive.config.Dir, e.id+e.suffix) }
func (e *Entry) keyPath() string { return filepath.Join(e.archive.config.KeyDir, e.id+e.suffix) }

// sessionID is the form of an id. Ids become paths, so those in file names are checked.
var sessionID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^s-[0-9a-f]{10}$`) })

// find reads the key of an entry that an earlier daemon wrote, and opens it.
func (e *Entry) find() (err error) {
	if !sessionID().MatchString(e.id) {
		return errors.New("is not the name of a session")
	}
	if e.key = e.archive.givenKey(e.id); e.key == nil {
		if e.key, err = os.ReadFile(e.keyPath()); err != nil {
			return err
		}
	}
	switch len(e.key) {
	case keySize: // from Config.Keys, or a file of an earlier version
		e.since = e.archive.config.Clock()
	case keySize + stampSize:
		e.since = time.Duration(binary.BigEndian.Uint64(e.key[keySize:]))
		e.key = e.key[:keySize]
	default:
		return errSeal
	}
	return e.open()
}

// open reads the runner's last report, but no output.
func (e *Entry) open() error {
	f, err := os.Open(e.path())
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	start := make([]byte, len(header))
	if _, err := f.ReadAt(start, 0); err != nil || !bytes.Equal(start, header) {
		return errSeal
	}
	e.size = info.Size()
	if e.text, err = textSize(e.size); err != nil {
		return err
	}
	if e.past, err = export.Open(e, e.text); err != nil {
		return err
	}
	if e.past.Result.Info.SessionID != e.id {
		return errors.New("belongs to session " + e.past.Result.Info.SessionID)
	}
	return nil
}

// ReadAt reads the decrypted export. It opens the file each time, because entries are rarely read
// and would hold a descriptor each.
func (e *Entry) ReadAt(p []byte, off int64) (int, error) {
	f, err := os.Open(e.path())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return unseal(f, e.key, e.text, p, off)
}

func (e *Entry) writeKey() error {
	if !e.archive.keyFiles {
		return nil
	}
	if err := os.MkdirAll(e.archive.config.KeyDir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(e.keyPath(), binary.BigEndian.AppendUint64(slices.Clone(e.key), uint64(e.since)), 0o600)
}

// removeFiles removes the key first: without it the other file cannot be read.
func (e *Entry) removeFiles() {
	if e.archive.keyFiles {
		_ = os.Remove(e.keyPath())
	}
	_ = os.Remove(e.path())
}

// complete gives the files of a new entry their names. They replace the entry of an earlier attempt,
// whose daemon was killed before the runner knew of it; after an error that entry is whole, or gone.
func (e *Entry) complete() error {
	partial := &Entry{archive: e.archive, id: e.id, suffix: tmp}
	e.suffix = ""
	if err := os.Rename(partial.path(), e.path()); err != nil {
		partial.removeFiles()
		return err
	}
	if !e.archive.keyFiles {
		return nil
	}
	if err := os.Rename(partial.keyPath(), e.keyPath()); err != nil {
		if old := e.archive.Entry(e.id); old != nil {
			old.Remove()
		}
		e.removeFiles()
		partial.removeFiles()
		return err
	}
	return nil
}

func (e *Entry) ended() time.Time {
	if at := e.past.Result.Info.TerminatedAt; at != nil {
		return *at
	}
	return time.Time{}
}
