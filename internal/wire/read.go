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
	// smallBuffer is the buffer of an idle connection.
	smallBuffer = 4 << 10
	// freeBuffer is the largest buffer that is not taken from the Budget, and the most that
	// one read returns.
	freeBuffer = 64 << 10
)

// Budget is a number of bytes that many Readers share. It is safe for concurrent use.
type Budget struct{ left atomic.Int64 }

// NewBudget makes a Budget of n bytes.
func NewBudget(n int64) *Budget {
	b := &Budget{}
	b.left.Store(n)
	return b
}

// Take takes n bytes if that many are left, and reports whether it did.
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

// Refused is the error that a Reader returns for a line that is too large. The following lines
// can still be read.
type Refused struct {
	// ID is the id of the request, nil if it is not in the part of the line that was read.
	ID    json.RawMessage
	Cause *api.Error
}

func (r *Refused) Error() string { return r.Cause.Message }

// Reader splits a stream into lines. Only one goroutine may use it.
type Reader struct {
	src    io.Reader
	max    int     // longest line
	keep   int     // largest buffer that is kept for the next line
	budget *Budget // may be nil

	buf        []byte // buf[start:end] has been read and not returned yet
	start, end int
	scanned    int   // buf[start:scanned] has no line end
	taken      int64 // bytes taken from the budget for buf
	skipping   bool  // the rest of the current line is discarded
	err        error // of src; returned when buf is empty
}

// NewReader makes a Reader for lines of at most longest bytes. It takes buffers of more than
// 64 KiB from the budget, if that is not nil, and reuses a buffer of at most keep bytes for the
// next line.
func NewReader(src io.Reader, longest, keep int, budget *Budget) *Reader {
	return &Reader{src: src, max: longest, keep: max(keep, smallBuffer), budget: budget, buf: make([]byte, smallBuffer)}
}

// Next returns the next line that is not empty, without its line end. The line is valid until the
// next call. The last line needs no line end. After a *Refused error, Next can be called again;
// any other error is final.
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

// line returns the next line, which may be empty.
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

// last returns the text after the last line end.
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

// fill calls Read once. Before, it makes room in the buffer; it refuses a line that would need too
// much.
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
	if len(r.buf) > r.max+1 { // the buffer has room for a line end of two bytes
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

// replace discards the buffer with its content, and makes a new one.
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

// Body returns the n raw bytes that follow the last line from Next, in buf if they fit, else in a
// new slice. n is not limited by the longest line.
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

// Attached returns the n raw bytes that follow the last line from Next, in a slice that belongs
// to the caller. The caller returns taken bytes to the budget when it no longer needs them. The
// error is a *Refused without an id if n is too large; the bytes are skipped then.
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

// Admit takes n bytes for a request from the budget, if they need it. Its error is a *Refused
// without an id.
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

// discard reads n bytes and drops them.
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

// Detach returns a line from Next in memory that belongs to the caller. It copies a small line,
// and hands over the buffer of a large one. The caller returns taken bytes to the budget when it
// no longer needs the line.
func (r *Reader) Detach(line []byte) (own []byte, taken int64) {
	if r.taken == 0 {
		return bytes.Clone(line), 0
	}
	taken = r.taken
	r.taken = 0
	// The rest is small: at most freeBuffer bytes were read with the end of the line.
	rest := r.buf[r.start:r.end]
	r.buf = make([]byte, max(smallBuffer, len(rest)))
	r.end = copy(r.buf, rest)
	r.start, r.scanned = 0, 0
	return line, taken
}

// Close returns the Reader's bytes to the budget.
func (r *Reader) Close() {
	r.budget.Return(r.taken)
	r.taken = 0
	r.buf = nil
	r.start, r.end, r.scanned = 0, 0, 0
	if r.err == nil {
		r.err = fmt.Errorf("read: %w", io.ErrClosedPipe)
	}
}
