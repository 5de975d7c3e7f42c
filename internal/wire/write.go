package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// chunkSize limits the size of a write into which small lines are joined.
	chunkSize = 64 << 10
	// ownSize is the size above which bytes that belong to the Writer are not copied to join
	// them with others.
	ownSize = 4 << 10
	// pieceSize limits one write of drain, so that WaitRoom sees progress within a large chunk.
	pieceSize = 1 << 20
)

// sendBuffer is the size of a socket's send buffer. With the default of the system, a large piece
// of output would have to wait for the peer several times.
const sendBuffer = 512 << 10

// Widen enlarges the send buffer of a unix socket. It is only faster, so errors do not matter.
func Widen(conn interface{ SetWriteBuffer(bytes int) error }) { _ = conn.SetWriteBuffer(sendBuffer) }

// ErrWriterClosed is the error of Send after Close.
var ErrWriterClosed = errors.New("connection closed")

// Writer writes lines in the order of the calls of Send, without making a sender wait for the
// peer: it queues the bytes that the kernel does not take at once. A goroutine writes the queue
// and ends when the queue is empty. A sender that can wait calls WaitRoom first, which limits the
// queue. Writer is safe for concurrent use.
//
// It has at most one goroutine, drain. Close makes it end, and Wait waits for it.
type Writer struct {
	dst      io.Writer
	raw      syscall.RawConn // nil if a write could block the thread
	timeout  time.Duration
	deadline interface{ SetWriteDeadline(time.Time) error } // nil if dst has no deadlines
	fail     func(error)
	draining sync.WaitGroup

	// The goroutine that has set busy uses these; see try.
	attempt func(fd uintptr) bool
	given   []byte
	took    int
	tookErr error

	mu     sync.Mutex
	busy   bool          // guarded by mu; a goroutine is writing
	chunks [][]byte      // guarded by mu; the queue
	unsent int           // guarded by mu; bytes that the kernel has not taken yet
	room   chan struct{} // guarded by mu; closed when unsent shrinks; nil if WaitRoom is not waiting
	err    error         // guarded by mu; the first error
}

// NewWriter makes a Writer. It fails if the peer takes nothing for the timeout. fail is called
// once, from any goroutine, when writing has failed, but not after Close.
func NewWriter(dst io.Writer, timeout time.Duration, fail func(error)) *Writer {
	w := &Writer{dst: dst, timeout: timeout, fail: fail}
	w.attempt = w.writeOnce
	// The descriptor of a connection never blocks; that of a file may.
	_, file := dst.(interface{ Fd() uintptr })
	if conn, ok := dst.(interface{ SetWriteDeadline(time.Time) error }); ok && !file {
		w.deadline = conn
		if sc, ok := dst.(syscall.Conn); ok {
			if raw, err := sc.SyscallConn(); err == nil {
				w.raw = raw
			}
		}
	}
	return w
}

// Send sends b. The caller may reuse b afterwards. An error means that the connection has ended.
func (w *Writer) Send(b []byte) error { return w.send(b, nil) }

// Give sends b, which belongs to the Writer from now on.
func (w *Writer) Give(b []byte) error { return w.send(nil, b) }

// SendWith sends a line and the raw bytes that follow it, with nothing between them. The caller
// may reuse line; body belongs to the Writer from now on.
func (w *Writer) SendWith(line, body []byte) error { return w.send(line, body) }

// send sends b, which it copies if it has to queue it, and then own, which it keeps.
func (w *Writer) send(b, own []byte) error {
	w.mu.Lock()
	if w.err != nil {
		err := w.err
		w.mu.Unlock()
		return err
	}
	w.unsent += len(b) + len(own)
	if w.busy {
		w.pushLocked(b, false)
		w.pushLocked(own, true)
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
	w.sentLocked(n)
	if err == nil {
		// The rest goes before the lines that other goroutines have queued in the meantime.
		var rest [][]byte
		if len(b) > 0 {
			rest = append(rest, bytes.Clone(b))
		}
		if len(own) > 0 {
			rest = append(rest, own)
		}
		w.chunks = slices.Insert(w.chunks, 0, rest...)
	}
	first := w.failedLocked(err)
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

// pushLocked appends b to the queue, joined with the last chunk if both are small. With own, b
// belongs to the Writer.
func (w *Writer) pushLocked(b []byte, own bool) {
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

// sentLocked counts n bytes as written, and wakes the callers of WaitRoom.
func (w *Writer) sentLocked(n int) {
	w.unsent -= n
	if w.room != nil && n > 0 {
		close(w.room)
		w.room = nil
	}
}

// failedLocked records the first error and wakes the callers of WaitRoom. It reports whether its
// caller must call fail, after unlocking.
func (w *Writer) failedLocked(err error) bool {
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

// try writes as much as the kernel takes without waiting.
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

// writeOnce calls write once. It always returns true, so that raw.Write does not wait and call it
// again.
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

// drain writes the queue until it is empty.
func (w *Writer) drain() {
	defer w.draining.Done()
	for {
		w.mu.Lock()
		if len(w.chunks) == 0 {
			if w.deadline != nil {
				_ = w.deadline.SetWriteDeadline(time.Time{}) // try would fail after the deadline
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

// write writes all of b. It waits for the peer, up to the timeout after each byte that the peer
// takes, and reports whether it succeeded.
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
			err = fmt.Errorf("the peer read nothing for %s", w.timeout)
		}
		w.mu.Lock()
		w.sentLocked(n)
		first := w.failedLocked(err)
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

// Unsent returns the number of bytes that the kernel has not taken yet.
func (w *Writer) Unsent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unsent
}

// WaitRoom waits until at most limit bytes are unsent.
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

// Close makes every Send and WaitRoom fail. It does not close the stream; the caller does.
func (w *Writer) Close() {
	w.mu.Lock()
	w.failedLocked(ErrWriterClosed)
	w.mu.Unlock()
}

// Wait waits for the goroutine of the Writer. Call Close and close the stream before.
func (w *Writer) Wait() { w.draining.Wait() }
