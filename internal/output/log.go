// Package output holds the output log of one exec: bounded, addressed by byte
// offset per stream and by sequence number over both streams.
//
// There is one writer and any number of readers. Readers pull; they copy bytes
// without holding the lock, so a slow or stuck reader costs the writer nothing.
//
// # Records
//
// The output is numbered as records, from 1, without gaps, over both streams. A
// record is a piece of one stream of at most MaxRecord bytes. Bytes
// that follow on the same stream extend the last record until a reader has seen
// it: small writes coalesce exactly while the readers are busy elsewhere, and a
// reader that has a record has all of it.
//
// A record never ends inside a UTF-8 sequence whose rest comes within 50 ms: the
// first bytes of the sequence are held back until then, and get the number of the
// record they are published with. So a reader can pass on each record as text, and
// a reader that continues after a number misses and repeats nothing.
//
// # Bounds
//
// A stream is stored in pages of up to 64 KiB. A page holds bytes from its
// front and the index of its records from its back, and a record never leaves
// its page. So dropping a page drops whole records together with their index,
// and one bound covers both. The first limit/2 bytes of a stream (the head) and
// the last limit/2 (the tail) are kept, rounded up to whole pages; pages between
// them are dropped and reused for new bytes. So each stream has at most one gap,
// and the totals stay exact.
//
// An index entry takes six bytes. Up to an eighth of the data the index comes
// for free; beyond that it is paid with data, so a flood of tiny writes that
// alternate between the streams keeps fewer than limit bytes instead of taking
// more memory. What a log keeps is at most about 2.4 * limit plus 800 KiB, and
// close to 2 * limit for ordinary output.
//
// Logs belong to a Store, which limits the memory of all of them together: beyond
// the limit, the pages that have been full for longest move to an unnamed file.
package output

import (
	"sync"
	"time"
	"unicode/utf8"
)

// MaxRecord is the largest number of bytes in one record.
const MaxRecord = maxPage

// A Stream is one of the two streams of an exec.
type Stream uint8

// The streams of an exec.
const (
	Stdout Stream = 0
	Stderr Stream = 1

	none Stream = 2 // the last sequence number belongs to no stream
)

// String returns the name of the stream as it appears on the wire.
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// A Log is the output of one exec. All methods may be called from any goroutine,
// except that Reserve, Commit and Append of one stream are for one goroutine at
// a time. A Log starts no goroutines, but for what its timer does.
type Log struct {
	store *Store

	// mu is the store's: a session runs one command at a time, so its logs are
	// rarely in each other's way, and pages can move between them. It guards all
	// below, and the pages except for published data.
	mu      *sync.Mutex
	streams [2]stream
	seq     int64         // the last number given out
	last    Stream        // the stream of record seq
	sealed  int64         // records up to here have been seen and do not grow
	mark    int64         // the number taken by Mark, or 0
	wake    chan struct{} // closed by the next change; nil while nobody waits
	closed  bool

	timer *time.Timer // publishes what is held back; nil until something was
	armed bool        // timer will fire
}

// New returns an empty log in store that keeps limit bytes of each stream.
func New(store *Store, limit int64) *Log {
	l := &Log{store: store, mu: &store.mu, last: none}
	for i := range l.streams {
		l.streams[i].init(store, max(limit, 0))
	}
	return l
}

// Reserve returns free space of at least 4 KiB to read output of the stream into,
// without the lock. Commit publishes what was read. A Reserve without a Commit
// has no effect.
func (l *Log) Reserve(st Stream) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams[st].reserve(minReserve)
}

// Commit publishes the first n bytes of the space that Reserve returned last for
// the stream. After Close it does nothing. With n = 0 it gives the space back.
func (l *Log) Commit(st Stream, n int) {
	l.mu.Lock()
	if n == 0 {
		l.streams[st].giveBack()
		l.mu.Unlock()
		return
	}
	if !l.closed {
		l.commit(st, n)
	}
	full, grown := l.store.full(), l.store.grown()
	l.unlockAndWake()
	if full {
		l.store.spill()
	}
	if grown {
		l.store.config.Grown()
	}
}

// Append publishes p as output of the stream. After Close it does nothing.
func (l *Log) Append(st Stream, p []byte) {
	for len(p) > 0 {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return
		}
		free := l.streams[st].reserve(min(len(p), minReserve))
		l.mu.Unlock()

		n := copy(free, p)
		l.Commit(st, n)
		p = p[n:]
	}
}

// commit publishes what is held of the stream and n reserved bytes, but for a
// character at the end whose rest is missing. The lock is held.
func (l *Log) commit(st Stream, n int) {
	s := &l.streams[st]
	data := s.written(n)
	whole := len(data)
	if data[whole-1] >= utf8.RuneSelf || len(s.held) > 0 {
		whole = l.hold(s, data)
	}
	if whole > 0 {
		l.publish(st, data[:whole])
	}
	s.reserved = nil
}

// publish lets readers see data, as a new record or as more of the last one.
func (l *Log) publish(st Stream, data []byte) {
	s := &l.streams[st]
	newPage := s.place(data, l.seq+1)
	if newPage || l.last != st || l.sealed >= l.seq {
		l.seq++
		l.last = st
		s.begin(l.seq)
	}
	s.publish(len(data))
}

// Mark takes one sequence number for something that is not output, the exit of
// the command, and returns it. Read skips it, Wait sees it. Later calls return
// the same number.
func (l *Log) Mark() int64 {
	l.mu.Lock()
	defer l.unlockAndWake()
	if l.mark == 0 {
		l.publishHeld(0)
		l.seq++
		l.last = none
		l.mark = l.seq
	}
	return l.mark
}

// Close says that the log is complete. It gives back the memory that was held
// for more output.
func (l *Log) Close() {
	l.mu.Lock()
	if !l.closed {
		l.publishHeld(0)
		l.closed = true
		l.disarm()
		for i := range l.streams {
			l.streams[i].finish()
		}
		l.store.keepSmall()
	}
	full := l.store.full() // the last pages may leave memory now
	l.unlockAndWake()
	if full {
		l.store.spill()
	}
}

// Closed reports whether the log is complete. A reader that finds nothing more
// is at the end only if the log was closed before it looked.
func (l *Log) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Release gives back the memory and keeps the totals: all output is a gap from
// now on, also what is still written.
func (l *Log) Release() {
	l.mu.Lock()
	defer l.unlockAndWake()
	l.publishHeld(0)
	l.disarm()
	for i := range l.streams {
		l.streams[i].release()
	}
}

// Trim lowers the limit and drops what is beyond it, from the middle. A log never
// gets a higher limit.
func (l *Log) Trim(limit int64) {
	l.mu.Lock()
	defer l.unlockAndWake()
	for i := range l.streams {
		l.streams[i].trim(max(limit, 0))
	}
}

// Bytes returns how many bytes were written to the stream, kept or not. The last
// three may not be published yet.
func (l *Log) Bytes(st Stream) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams[st].total + int64(len(l.streams[st].held))
}

// Last returns the last sequence number in use, 0 if there is none.
func (l *Log) Last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// Kept returns how many bytes of memory and of the store's file the log holds.
func (l *Log) Kept() (memory, file int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.streams {
		memory += l.streams[i].memory
		file += l.streams[i].filed
	}
	return memory, file
}

// Gap returns the part [from, to) of the stream that is gone; 0, 0 for none.
func (l *Log) Gap(st Stream) (from, to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.streams[st].gap
	if g.to <= g.from {
		return 0, 0
	}
	return g.from, g.to
}

// seal keeps the records up to seq from growing: a reader has them.
func (l *Log) seal(seq int64) {
	l.sealed = max(l.sealed, min(seq, l.seq))
}
