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

// A Log is the output of one exec. All methods may be called from any goroutine, except that only
// one goroutine at a time may call Reserve, Commit and Append of one stream. A Log starts no
// goroutines apart from that of its timer.
type Log struct {
	store *Store

	// mu is the mutex of the store, so that pages can move between logs. The logs of a session
	// rarely compete for it, because a session runs one command at a time. It guards all fields
	// below, and the pages except for published data.
	mu      *sync.Mutex
	streams [2]stream
	seq     int64         // the last number in use
	last    Stream        // the stream of record seq
	sealed  int64         // records up to this number have been seen and do not grow
	mark    int64         // the number taken by Mark, or 0
	wake    chan struct{} // closed by the next change; nil if no reader waits
	closed  bool

	most int64  // bytes of both streams together that over is called beyond; see Bound
	over func() // nil without a bound, and after the call

	timer *time.Timer // publishes bytes that are held back; nil until it is first needed
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

// Reserve returns free space of at least 4 KiB, into which the caller reads output of the stream
// without the lock. Commit then publishes the output. A Reserve without a Commit has no effect.
func (l *Log) Reserve(st Stream) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams[st].reserve(minReserve)
}

// Commit publishes the first n bytes of the space that Reserve last returned for the stream. With
// n = 0 it gives the space back. After Close it does nothing.
func (l *Log) Commit(st Stream, n int) {
	l.mu.Lock()
	if n == 0 {
		l.streams[st].giveBack()
		l.mu.Unlock()
		return
	}
	if !l.closed {
		l.commitLocked(st, n)
		l.checkBoundLocked()
	}
	full, grown := l.store.fullLocked(), l.store.grownLocked()
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

// Bound calls over once, when the streams together have more than most bytes. The log is locked
// meanwhile, so over must not wait for anything.
func (l *Log) Bound(most int64, over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most, l.over = most, over
	l.checkBoundLocked()
}

func (l *Log) checkBoundLocked() {
	if l.over != nil && l.streams[Stdout].total+l.streams[Stderr].total > l.most {
		over := l.over
		l.over = nil
		over()
	}
}

// commitLocked publishes the held bytes of the stream and n reserved bytes, except for an
// incomplete character at the end.
func (l *Log) commitLocked(st Stream, n int) {
	s := &l.streams[st]
	data := s.written(n)
	whole := len(data)
	if data[whole-1] >= utf8.RuneSelf || len(s.held) > 0 {
		whole = l.holdLocked(s, data)
	}
	if whole > 0 {
		l.publishLocked(st, data[:whole])
	}
	s.reserved = nil
}

// publishLocked makes data visible to readers, as a new record or as part of the last one.
func (l *Log) publishLocked(st Stream, data []byte) {
	s := &l.streams[st]
	newPage := s.place(data, l.seq+1)
	if newPage || l.last != st || l.sealed >= l.seq {
		l.seq++
		l.last = st
		s.begin(l.seq)
	}
	s.publish(len(data))
}

// Mark takes a sequence number for an event that is not output, the exit of the command, and
// returns it. Read skips the number; Wait returns for it. Later calls return the same number.
func (l *Log) Mark() int64 {
	l.mu.Lock()
	defer l.unlockAndWake()
	if l.mark == 0 {
		l.publishHeldLocked(0)
		l.seq++
		l.last = none
		l.mark = l.seq
	}
	return l.mark
}

// Close marks the log as complete and releases the memory that was reserved for more output.
func (l *Log) Close() {
	l.mu.Lock()
	if !l.closed {
		l.publishHeldLocked(0)
		l.closed = true
		l.disarmLocked()
		for i := range l.streams {
			l.streams[i].finish()
		}
		l.store.keepSmallLocked()
	}
	full := l.store.fullLocked() // now the last pages may move to the file too
	l.unlockAndWake()
	if full {
		l.store.spill()
	}
}

// Closed reports whether the log is complete. A reader that finds no more output has read all of it
// only if the log was already closed before the reader looked.
func (l *Log) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Release drops all output and keeps the totals: the whole streams are gaps from now on, including
// output that is written later.
func (l *Log) Release() {
	l.mu.Lock()
	defer l.unlockAndWake()
	l.publishHeldLocked(0)
	l.disarmLocked()
	for i := range l.streams {
		l.streams[i].release()
	}
}

// Trim lowers the limit and drops output from the middle accordingly. It never raises the limit.
func (l *Log) Trim(limit int64) {
	l.mu.Lock()
	defer l.unlockAndWake()
	for i := range l.streams {
		l.streams[i].trim(max(limit, 0))
	}
}

// Bytes returns how many bytes were written to the stream, kept or not. Up to three of them may not
// be published yet.
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

// Kept returns how many bytes of memory and of the store's file the log uses.
func (l *Log) Kept() (memory, file int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.streams {
		memory += l.streams[i].memory
		file += l.streams[i].filed
	}
	return memory, file
}

// Gap returns the part [from, to) of the stream that was dropped; 0, 0 for none.
func (l *Log) Gap(st Stream) (from, to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.streams[st].gap
	if g.to <= g.from {
		return 0, 0
	}
	return g.from, g.to
}

// sealLocked keeps the records up to seq from growing, because a reader has them.
func (l *Log) sealLocked(seq int64) {
	l.sealed = max(l.sealed, min(seq, l.seq))
}
