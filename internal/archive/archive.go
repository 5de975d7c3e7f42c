// Package archive keeps the readable remains of ended sessions: one encrypted file for
// each, in the state directory, so that it outlives the daemon. The key of a file is in a
// separate file, in a directory that is in memory. So the disk has no plain text, and once
// the key is deleted, the file can never be read.
//
// Where no directory is in memory, the keys stay in this process, and the archive is lost
// when the process ends.
package archive

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/output"
)

const (
	// maxEntries bounds the sessions, however little each takes.
	maxEntries = 256
	// maxLoaded is how many logs stay loaded for their readers; memoryBytes is how many bytes of
	// them are in memory.
	maxLoaded   = 16
	memoryBytes = 4 << 20

	keySize = 32
	// stampSize is the size of the time behind a key in its file.
	stampSize = 8
	tmp       = ".tmp"
)

// Config is what an Archive needs.
type Config struct {
	Dir    string // of the encrypted files; made when it is needed
	KeyDir string // of the keys; made when it is needed
	// SpillDir is where output that is being read is kept, in a file without a name.
	SpillDir string
	// Keys are the keys that the program before this one had in memory, as its Keys returned them.
	Keys   []byte
	Logger *slog.Logger
	// Clock returns the time since the machine's start, without the time it was asleep. It is the
	// same for all daemons, and cannot be set. If it is nil, it is the system's.
	Clock func() time.Duration
}

// monotonic is the system's Clock.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// Archive is the set of archived sessions. It is safe for concurrent use and has
// no goroutines.
type Archive struct {
	config   Config
	log      *slog.Logger
	store    *output.Store // of the loaded output
	keyFiles bool          // keys are written to files

	mu      sync.Mutex
	entries map[string]*Entry // guarded by mu; by session
	order   []*Entry          // guarded by mu; by the time of their end, oldest first
	size    int64             // guarded by mu; of all entries
	loaded  []*loaded         // guarded by mu; by the time of their last use, oldest first
}

// Open finds the sessions that an earlier daemon archived. It removes those that cannot be read.
func Open(c Config) (*Archive, error) {
	if c.Clock == nil {
		c.Clock = monotonic
	}
	a := &Archive{
		config: c, log: c.Logger, entries: map[string]*Entry{}, keyFiles: inMemory(c.KeyDir),
		store: output.NewStore(output.StoreConfig{
			MemoryBytes: memoryBytes, Dir: c.SpillDir,
			Warn: func(err error) { c.Logger.Warn("output of ended sessions cannot be stored in a file", "error", err) },
		}),
	}
	files, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		id, partial := strings.CutSuffix(f.Name(), tmp)
		e := &Entry{archive: a, id: id}
		incomplete := &Entry{archive: a, id: id, suffix: tmp}
		if partial {
			incomplete.removeFiles()
			continue
		}
		if err := e.find(); err != nil {
			a.log.Info("removed an ended session", "session_id", id, "error", err)
			e.removeFiles()
			incomplete.removeFiles() // the daemon may have been killed before it renamed the key
			_ = os.Remove(filepath.Join(c.Dir, f.Name()))
			continue
		}
		a.entries[id] = e
		a.order = append(a.order, e)
		a.size += e.size
	}
	slices.SortStableFunc(a.order, func(x, y *Entry) int { return x.ended().Compare(y.ended()) })
	return a, nil
}

// idSize is the length of a session's id.
const idSize = len("s-0123456789")

// Keys returns the keys that are in memory only, for the program that takes the place of this one
// and could not read the archived sessions without them. It returns nil where the keys are in
// files, and at most 11 KiB.
func (a *Archive) Keys() []byte {
	if a.keyFiles {
		return nil
	}
	var keys []byte
	for _, e := range a.Entries() {
		keys = append(append(keys, e.id...), e.key...)
	}
	return keys
}

// givenKey finds the key of a session in Config.Keys; nil for none.
func (a *Archive) givenKey(id string) []byte {
	const each = idSize + keySize
	for rest := a.config.Keys; len(rest) >= each; rest = rest[each:] {
		if string(rest[:idSize]) == id {
			return slices.Clone(rest[idSize:each])
		}
	}
	return nil
}

// Entries returns the archived sessions, by the time of their end, oldest first.
func (a *Archive) Entries() []*Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.order)
}

// Entry returns the archived session with an id; nil for none.
func (a *Archive) Entry(id string) *Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.entries[id]
}

// Size returns how many bytes all entries take.
func (a *Archive) Size() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.size
}

// Shrink removes the oldest sessions until n bytes are free, or no session is left.
func (a *Archive) Shrink(n int64) {
	for _, e := range a.Entries() {
		if n <= 0 {
			return
		}
		n -= e.size
		e.Remove()
	}
}

// Clear removes all sessions.
func (a *Archive) Clear() {
	for _, e := range a.Entries() {
		e.Remove()
	}
	// Only if they are empty: other files may be there too.
	_ = os.Remove(a.config.Dir)
	_ = os.Remove(a.config.KeyDir)
}

// add adds a new entry, and removes the oldest ones if there are too many.
func (a *Archive) add(e *Entry) {
	a.mu.Lock()
	if old := a.entries[e.id]; old != nil { // its files have been replaced
		a.order = slices.DeleteFunc(a.order, func(x *Entry) bool { return x == old })
		a.size -= old.size
	}
	a.entries[e.id] = e
	a.order = append(a.order, e)
	a.size += e.size
	var over []*Entry
	if n := len(a.order) - maxEntries; n > 0 {
		over = slices.Clone(a.order[:n])
	}
	a.mu.Unlock()
	for _, e := range over {
		e.Remove()
	}
}

// Create starts to archive a session. The caller writes the export of its runner to the Writer.
func (a *Archive) Create(id string) (*Writer, error) {
	if err := os.MkdirAll(a.config.Dir, 0o700); err != nil {
		return nil, err
	}
	e := &Entry{archive: a, id: id, suffix: tmp, key: make([]byte, keySize), since: a.config.Clock()}
	_, _ = rand.Read(e.key) // never fails; see crypto/rand
	f, err := os.OpenFile(e.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	w := &Writer{entry: e, f: f, sealer: newSealer(e.key)}
	if _, err := f.Write(header); err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

// Writer writes an export into the archive. Only one goroutine may use it.
type Writer struct {
	entry *Entry
	f     *os.File
	*sealer
}

// Write encrypts a piece of the export.
func (w *Writer) Write(p []byte) (int, error) {
	return len(p), w.seal(p, w.f)
}

// Close completes the entry. After an error no file of it is left. The complete entry of an earlier
// attempt stays, unless the new file had already taken its place.
func (w *Writer) Close() (*Entry, error) {
	e := w.entry
	err := w.finish(w.f)
	if closeErr := w.f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = e.writeKey()
	}
	if err == nil {
		err = e.open()
	}
	if err != nil {
		w.Abort()
		return nil, err
	}
	if err := e.complete(); err != nil {
		return nil, err
	}
	e.archive.add(e)
	return e, nil
}

// Abort removes the files of the incomplete entry.
func (w *Writer) Abort() {
	_ = w.f.Close()
	w.entry.removeFiles()
}

// loaded is the output of one command that is being read, or was read lately.
type loaded struct {
	entry *Entry
	id    string
	exec  *export.Exec
	users int // guarded by the archive's mu
}

// borrow returns the output of a command. The caller must call giveBack.
func (a *Archive) borrow(e *Entry, id string) (*loaded, error) {
	if l := a.find(e, id); l != nil {
		return l, nil
	}
	e.loading.Lock()
	defer e.loading.Unlock()
	if l := a.find(e, id); l != nil { // another goroutine has loaded it meanwhile
		return l, nil
	}
	exec, err := e.past.Load(a.store, id)
	if err != nil {
		return nil, err
	}
	l := &loaded{entry: e, id: id, exec: exec, users: 1}
	a.mu.Lock()
	a.loaded = append(a.loaded, l)
	a.mu.Unlock()
	return l, nil
}

func (a *Archive) find(e *Entry, id string) *loaded {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, l := range a.loaded {
		if l.entry == e && l.id == id {
			a.loaded = append(slices.Delete(a.loaded, i, i+1), l)
			l.users++
			return l
		}
	}
	return nil
}

// giveBack ends the use of borrowed output; nil for none. It releases unused output if more than
// maxLoaded logs are loaded, or if the session has been removed.
func (a *Archive) giveBack(l *loaded) {
	a.mu.Lock()
	if l != nil {
		l.users--
	}
	var drop []*loaded
	more := len(a.loaded) - maxLoaded
	a.loaded = slices.DeleteFunc(a.loaded, func(l *loaded) bool {
		if l.users > 0 || a.entries[l.entry.id] == l.entry && more <= 0 {
			return false
		}
		more--
		drop = append(drop, l)
		return true
	})
	a.mu.Unlock()
	for _, l := range drop {
		l.exec.Log.Release()
	}
}
