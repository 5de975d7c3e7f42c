package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// chunkSize is up to where small lines are joined into one write.
	chunkSize = 64 << 10
	// ownSize is from where on what is given is not joined with others.
	ownSize = 4 << 10
	// pieceSize is how much is written before the waiting are told of the room.
	pieceSize = 1 << 20
)

// sendBuffer is how much a socket takes before its peer reads it. With the default of the
// system, a piece of output at full speed would wait several times on its way.
const sendBuffer = 512 << 10

// Widen gives a socket room for much output. A system that gives less does no harm.
func Widen(conn net.Conn) {
	if c, ok := conn.(*net.UnixConn); ok {
		_ = c.SetWriteBuffer(sendBuffer)
	}
}

// ErrWriterClosed is what Send answers after Close.
var ErrWriterClosed = errors.New("connection closed")

// Writer sends lines in the order of Send, and nobody who sends waits for the
// peer: what the kernel does not take at once is kept and written by a goroutine
// that lives only as long as there is something to write. Who can wait, asks with
// WaitRoom first, and so bounds what is kept. It is safe for concurrent use.
//
// Goroutines: at most one, drain, which Close makes end and Wait waits for.
type Writer struct {
	dst      io.Writer
	raw      syscall.RawConn // nil where a write may block the thread
	timeout  time.Duration
	deadline interface{ SetWriteDeadline(time.Time) error } // nil where there is none
	fail     func(error)
	draining sync.WaitGroup

	// attempt, given and took are used only by whoever has set busy.
	attempt func(fd uintptr) bool
	given   []byte
	took    int
	tookErr error

	mu     sync.Mutex
	busy   bool          // guarded by mu; somebody writes
	chunks [][]byte      // guarded by mu; what waits behind that
	unsent int           // guarded by mu; bytes that the kernel does not have
	room   chan struct{} // guarded by mu; closed when unsent shrinks; nil when nobody waits
	err    error         // guarded by mu
}

// NewWriter makes a Writer. A peer that takes nothing for the timeout is given up.
// fail is called once, from any goroutine, when the stream cannot be written any
// more; not after Close.
func NewWriter(dst io.Writer, timeout time.Duration, fail func(error)) *Writer {
	w := &Writer{dst: dst, timeout: timeout, fail: fail}
	w.attempt = w.writeOnce
	if conn, ok := dst.(net.Conn); ok {
		w.deadline = conn
		// The descriptor of a net.Conn never blocks; that of a file may.
		if sc, ok := dst.(syscall.Conn); ok {
			if raw, err := sc.SyscallConn(); err == nil {
				w.raw = raw
			}
		}
	}
	return w
}

// Send sends b, which the caller may use again when it returns. An error says
// that the connection is gone.
func (w *Writer) Send(b []byte) error { return w.send(b, nil) }

// Give sends b, which is the Writer's from now on.
func (w *Writer) Give(b []byte) error { return w.send(nil, b) }

// SendWith sends a line and the bytes that belong to it, with nothing between them. The
// line can be used again, the bytes are the Writer's from now on.
func (w *Writer) SendWith(line, body []byte) error { return w.send(line, body) }

// send sends b, which it copies where it must, and then own, which it keeps.
func (w *Writer) send(b, own []byte) error {
	w.mu.Lock()
	if w.err != nil {
		err := w.err
		w.mu.Unlock()
		return err
	}
	w.unsent += len(b) + len(own)
	if w.busy {
		w.push(b, false)
		w.push(own, true)
		w.mu.Unlock()
		return nil
	}
	w.busy = true
	w.mu.Unlock()

	n, err := w.try(b)
	if n == len(b) && err == nil && len(own) > 0 {
		var m int
		m, err = w.try(own)
		own, n = own[m:], n+m
		b = nil
	} else {
		b = b[n:]
	}

	w.mu.Lock()
	w.sent(n)
	if err == nil {
		// Others may have pushed meanwhile; this comes before them.
		var rest [][]byte
		if len(b) > 0 {
			rest = append(rest, bytes.Clone(b))
		}
		if len(own) > 0 {
			rest = append(rest, own)
		}
		w.chunks = slices.Insert(w.chunks, 0, rest...)
	}
	first := w.failed(err)
	if len(w.chunks) > 0 && w.err == nil {
		w.draining.Add(1)
		go w.drain()
	} else {
		w.busy = false
	}
	w.mu.Unlock()
	if first {
		w.fail(err)
	}
	return err
}

// push keeps b for the drain. Small lines are joined. mu is held.
func (w *Writer) push(b []byte, own bool) {
	if len(b) == 0 {
		return
	}
	switch last := len(w.chunks) - 1; {
	case own && len(b) > ownSize:
		w.chunks = append(w.chunks, b)
	case last >= 0 && len(w.chunks[last])+len(b) <= chunkSize:
		w.chunks[last] = append(w.chunks[last], b...)
	default:
		w.chunks = append(w.chunks, bytes.Clone(b))
	}
}

// sent counts n bytes as written. mu is held.
func (w *Writer) sent(n int) {
	w.unsent -= n
	if w.room != nil && n > 0 {
		close(w.room)
		w.room = nil
	}
}

// failed records the first error and wakes those who wait. mu is held. It reports
// whether the caller must call fail.
func (w *Writer) failed(err error) bool {
	if err == nil || w.err != nil {
		return false
	}
	w.err = err
	w.chunks = nil
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
	return true
}

// try writes what the kernel takes without waiting.
func (w *Writer) try(b []byte) (int, error) {
	if w.raw == nil || len(b) == 0 {
		return 0, nil
	}
	w.given, w.took, w.tookErr = b, 0, nil
	err := w.raw.Write(w.attempt)
	w.given = nil
	if err == nil {
		err = w.tookErr
	}
	return w.took, err
}

// writeOnce never asks to be called again, so raw.Write never waits.
func (w *Writer) writeOnce(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), w.given)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN || err == syscall.ENOBUFS:
		case err != nil:
			w.tookErr = os.NewSyscallError("write", err)
		default:
			w.took = max(n, 0)
		}
		return true
	}
}

func (w *Writer) drain() {
	defer w.draining.Done()
	for {
		w.mu.Lock()
		if len(w.chunks) == 0 {
			if w.deadline != nil {
				_ = w.deadline.SetWriteDeadline(time.Time{}) // try would fail after it
			}
			w.busy = false
			w.mu.Unlock()
			return
		}
		chunks := w.chunks
		w.chunks = nil
		w.mu.Unlock()
		for _, chunk := range chunks {
			for piece := range slices.Chunk(chunk, pieceSize) {
				if !w.write(piece) {
					return
				}
			}
		}
	}
}

// write writes all of b, waiting for the peer as long as it takes anything.
func (w *Writer) write(b []byte) bool {
	for len(b) > 0 {
		if w.deadline != nil && w.timeout > 0 {
			_ = w.deadline.SetWriteDeadline(time.Now().Add(w.timeout))
		}
		n, err := w.dst.Write(b)
		b = b[n:]
		if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("the peer took nothing for %s", w.timeout)
		}
		w.mu.Lock()
		w.sent(n)
		first := w.failed(err)
		gone := w.err != nil
		if gone {
			w.busy = false
		}
		w.mu.Unlock()
		if first {
			w.fail(err)
		}
		if gone {
			return false
		}
	}
	return true
}

// Unsent is how many bytes the kernel does not have yet.
func (w *Writer) Unsent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unsent
}

// WaitRoom waits until at most limit bytes are unsent; 0 waits for all of them.
func (w *Writer) WaitRoom(ctx context.Context, limit int) error {
	for {
		w.mu.Lock()
		if w.err != nil || w.unsent <= limit {
			err := w.err
			w.mu.Unlock()
			return err
		}
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close makes every Send and WaitRoom fail. The stream itself is the caller's to close.
func (w *Writer) Close() {
	w.mu.Lock()
	w.failed(ErrWriterClosed)
	w.mu.Unlock()
}

// Wait waits for the goroutine of the Writer, after Close and after the stream was closed.
func (w *Writer) Wait() { w.draining.Wait() }
