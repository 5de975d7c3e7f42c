package server

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// pieceBytes is how much is written before the deadline of the client is extended. A client that
// takes less in that time gets it again; see steadyConn.
const pieceBytes = 64 << 10

// reply writes an answer. It gives a client up that takes nothing for the timeout.
type reply struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	status  int // 0 until the header is written
}

func newReply(w http.ResponseWriter, timeout time.Duration) *reply {
	r := &reply{ResponseWriter: w, rc: http.NewResponseController(w), timeout: timeout}
	r.extend()
	return r
}

// Unwrap is for http.ResponseController.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *reply) extend() { _ = w.rc.SetWriteDeadline(time.Now().Add(w.timeout)) }

// WriteHeader writes the header.
func (w *reply) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.status = status
	}
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *reply) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	done := 0
	for {
		piece := p[done:min(len(p), done+pieceBytes)]
		w.extend()
		n, err := w.ResponseWriter.Write(piece)
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}

// Flush sends the buffered bytes.
func (w *reply) Flush() { _ = w.FlushError() }

// FlushError sends the buffered bytes, and returns an error if the client has disconnected.
func (w *reply) FlushError() error {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.extend()
	return w.rc.Flush()
}

// body is what a client sends. If nothing comes for the timeout, reading ends.
type body struct {
	io.ReadCloser
	rc      *http.ResponseController
	timeout time.Duration
	ended   bool // nothing follows
}

func (b *body) extend() { _ = b.rc.SetReadDeadline(time.Now().Add(b.timeout)) }

// Read reads a part of the body.
func (b *body) Read(p []byte) (int, error) {
	if b.ended {
		// By now net/http reads to see whether the client leaves, for as long as it takes:
		// a deadline would be the end of the client.
		return 0, io.EOF
	}
	b.extend()
	n, err := b.ReadCloser.Read(p)
	b.ended = errors.Is(err, io.EOF)
	return n, err
}
