package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/trl-dev/trl/api"
)

const (
	// smallBuffer is what an idle connection costs.
	smallBuffer = 4 << 10
	// freeBuffer is how much room a line takes without asking the Budget, and how
	// much is read at once.
	freeBuffer = 64 << 10
)

// Budget is a number of bytes that many readers share.
type Budget struct{ left atomic.Int64 }

// NewBudget makes a Budget of n bytes.
func NewBudget(n int64) *Budget {
	b := &Budget{}
	b.left.Store(n)
	return b
}

// Take reports whether n bytes were left, and takes them.
func (b *Budget) Take(n int64) bool {
	if b == nil {
		return true
	}
	if b.left.Add(-n) < 0 {
		b.left.Add(n)
		return false
	}
	return true
}

// Return gives n bytes back.
func (b *Budget) Return(n int64) {
	if b != nil {
		b.left.Add(n)
	}
}

// Refused is what a Reader returns in place of a line that it did not store. The
// lines behind it can still be read.
type Refused struct {
	// ID is the id of the request, nil when the stored part did not have it.
	ID    json.RawMessage
	Cause *api.Error
}

func (r *Refused) Error() string { return r.Cause.Message }

// Reader cuts a stream into lines. It is used by one goroutine.
type Reader struct {
	src    io.Reader
	max    int     // longest line
	keep   int     // largest buffer that is kept for the next line
	budget *Budget // may be nil

	buf        []byte // buf[start:end] is what was read and not yet returned
	start, end int
	scanned    int   // buf[start:scanned] has no line end
	taken      int64 // of the budget, for buf
	skipping   bool  // the rest of the current line is thrown away
	err        error // of src; returned when buf is empty
}

// NewReader makes a Reader whose lines have at most longest bytes. Buffers of more
// than 64 KiB are taken from the budget, if there is one; a buffer of at most keep
// bytes is used again for the next line.
func NewReader(src io.Reader, longest, keep int, budget *Budget) *Reader {
	return &Reader{src: src, max: longest, keep: max(keep, smallBuffer), budget: budget, buf: make([]byte, smallBuffer)}
}

// Next returns the next line that is not empty, without its line end. It is valid
// until the next call. What stands behind the last line end counts as a line. A
// *Refused error stands for one line, any other is the end.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimRight(line, " \t\r"); len(line) > 0 {
			return line, nil
		}
	}
}

func (r *Reader) line() ([]byte, error) {
	for {
		if n := bytes.IndexByte(r.buf[r.scanned:r.end], '\n'); n >= 0 {
			line := r.buf[r.start : r.scanned+n]
			r.start = r.scanned + n + 1
			r.scanned = r.start
			if r.skipping {
				r.skipping = false
				continue
			}
			if len(line) > r.max {
				return nil, r.refused(FindID(line), r.tooLarge())
			}
			return line, nil
		}
		r.scanned = r.end
		if r.skipping {
			r.start, r.end, r.scanned = 0, 0, 0
		}
		if r.err != nil {
			return r.last()
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// last returns what stands behind the last line end.
func (r *Reader) last() ([]byte, error) {
	line := r.buf[r.start:r.end]
	r.start, r.scanned = r.end, r.end
	if len(line) == 0 || r.err != io.EOF {
		return nil, r.err
	}
	if len(line) > r.max {
		return nil, r.refused(FindID(line), r.tooLarge())
	}
	return line, nil
}

// fill reads once. It makes room first, and refuses the line that would need too much.
func (r *Reader) fill() error {
	if r.start == r.end {
		r.start, r.end, r.scanned = 0, 0, 0
		if len(r.buf) > r.keep {
			r.replace(smallBuffer)
		}
	}
	if r.end == len(r.buf) && r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.scanned -= r.start
		r.start = 0
	}
	if r.end == len(r.buf) {
		if cause := r.grow(); cause != nil {
			id := FindID(r.buf[r.start:r.end])
			r.skipping = true
			r.start, r.end, r.scanned = 0, 0, 0
			r.replace(smallBuffer)
			return r.refused(id, cause)
		}
	}
	n, err := r.src.Read(r.buf[r.end:min(len(r.buf), r.end+freeBuffer)])
	r.end += n
	if err != nil {
		r.err = err
	}
	return nil
}

// grow doubles the buffer, which is full with one unfinished line.
func (r *Reader) grow() *api.Error {
	if len(r.buf) > r.max+1 { // a line end of two bytes may follow
		return r.tooLarge()
	}
	size := min(2*len(r.buf), r.max+2)
	if size > freeBuffer && !r.budget.Take(int64(size)) {
		return tooMany()
	}
	taken := r.taken
	old := r.buf
	r.buf = make([]byte, size)
	copy(r.buf, old[:r.end])
	r.taken = 0
	if size > freeBuffer {
		r.taken = int64(size)
	}
	r.budget.Return(taken)
	return nil
}

// replace throws the buffer away, whose bytes nobody needs, for one of that size.
func (r *Reader) replace(size int) {
	r.budget.Return(r.taken)
	r.taken = 0
	r.buf = make([]byte, size)
}

func (r *Reader) tooLarge() *api.Error {
	e := api.Errorf(api.CodeRequestTooLarge, "request: larger than max_request_bytes (%d)", r.max)
	e.Details = map[string]any{"max_request_bytes": r.max}
	return e
}

func (r *Reader) refused(id json.RawMessage, cause *api.Error) error {
	return &Refused{ID: id, Cause: cause}
}

// Body returns the n bytes behind the line that Next returned last, in buf if they fit,
// else in a new slice. They need not fit into what a line may have.
func (r *Reader) Body(n int, buf []byte) ([]byte, error) {
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	body := buf[:n]
	got := copy(body, r.buf[r.start:r.end])
	r.start += got
	r.scanned = r.start
	for got < n && r.err == nil {
		var m int
		m, r.err = r.src.Read(body[got:])
		got += m
	}
	if got < n {
		if r.err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, r.err
	}
	return body, nil
}

// Attached returns the n bytes behind the line that Next returned last, which are the caller's;
// taken is what they took of the budget, for the caller to return. A *Refused error stands for
// bytes that were not stored; it has no id.
func (r *Reader) Attached(n int) (body []byte, taken int64, err error) {
	if taken, err = r.Admit(n); err != nil {
		if broken := r.discard(n); broken != nil {
			err = broken
		}
		return nil, 0, err
	}
	if body, err = r.Body(n, nil); err != nil {
		r.budget.Return(taken)
		return nil, 0, err
	}
	return body, taken, nil
}

// Admit takes room for n bytes of a request from the budget. Its error is a *Refused without
// an id.
func (r *Reader) Admit(n int) (taken int64, err error) {
	switch {
	case n > r.max:
		return 0, r.refused(nil, r.tooLarge())
	case n <= freeBuffer:
		return 0, nil
	case !r.budget.Take(int64(n)):
		return 0, r.refused(nil, tooMany())
	}
	return int64(n), nil
}

// discard throws n bytes away.
func (r *Reader) discard(n int) error {
	room := make([]byte, min(n, freeBuffer))
	for n > 0 {
		piece, err := r.Body(min(n, len(room)), room)
		if err != nil {
			return err
		}
		n -= len(piece)
	}
	return nil
}

func tooMany() *api.Error {
	return api.Errorf(api.CodeResourcePressure, "request: too many large requests at once; try again later")
}

// Detach makes a line that Next returned the caller's own. A large one is handed
// over with the buffer it lies in; taken is what that took of the budget, for the
// caller to return.
func (r *Reader) Detach(line []byte) (own []byte, taken int64) {
	if r.taken == 0 {
		return bytes.Clone(line), 0
	}
	taken = r.taken
	r.taken = 0
	// At most freeBuffer bytes were read with the end of the line.
	rest := r.buf[r.start:r.end]
	r.buf = make([]byte, max(smallBuffer, len(rest)))
	r.end = copy(r.buf, rest)
	r.start, r.scanned = 0, 0
	return line, taken
}

// Close returns what the Reader took of the budget.
func (r *Reader) Close() {
	r.budget.Return(r.taken)
	r.taken = 0
	r.buf = nil
	r.start, r.end, r.scanned = 0, 0, 0
	if r.err == nil {
		r.err = fmt.Errorf("read: %w", io.ErrClosedPipe)
	}
}
