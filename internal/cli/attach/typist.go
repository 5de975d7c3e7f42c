package attach

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

const (
	// typedAtOnce is how many bytes of keys go into one session.input.
	typedAtOnce = 64 << 10
	// maxTyped bounds the keys that wait for a program that does not read. Further keys are lost.
	maxTyped = 16 << 20
	// lastTyped is how long finish waits for the last keys.
	lastTyped = 2 * time.Second
)

// Type types all that r holds into the terminal of a session, as fast as its program reads, and
// then what ends input on a terminal: end-of-file, twice if a line is unfinished, because the first
// one only hands that line over.
func Type(ctx context.Context, c *client.Client, session string, r io.Reader) error {
	const eof = "\x04"
	t := typing{client: c, session: session, id: rand.Text()}
	b := make([]byte, typedAtOnce)
	for end := eof; ; {
		n, err := r.Read(b)
		if n > 0 {
			if err := t.write(ctx, b[:n]); err != nil {
				return err
			}
			if end = eof; b[n-1] != '\n' {
				end += eof
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return t.write(ctx, []byte(end))
		case err != nil:
			return fmt.Errorf("read stdin: %w", err)
		}
	}
}

// typing sends pieces of input to a terminal. Each has an id, so that nothing is typed twice even if
// the daemon restarts meanwhile.
type typing struct {
	client  *client.Client
	session string
	id      string
	pieces  int // that were sent
}

// write types one piece. It waits for a program that has not read its earlier input.
func (t *typing) write(ctx context.Context, data []byte) error {
	t.pieces++
	p := api.SessionInputParams{SessionID: t.session, WriteID: fmt.Sprintf("%s/%d", t.id, t.pieces)}
	p.Text, p.DataBase64 = ui.TextOrBase64(data)
	var pause ui.Backoff
	for {
		_, err := t.client.SessionInput(ctx, p)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != api.CodeResourcePressure {
			return err
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// typist types what a person types into the terminal of a session, in order: it sends a piece when
// the one before has arrived. It is safe for concurrent use.
//
// Goroutines: the one that calls run.
type typist struct {
	typing
	failed chan error    // of capacity 1: why the typist stopped
	wake   chan struct{} // of capacity 1
	done   chan struct{} // closed when run has returned

	mu    sync.Mutex
	queue []byte // guarded by mu
	close bool   // guarded by mu; no more keys come
}

// newTypist returns a typist for a session. The caller must call run.
func newTypist(c *client.Client, session string) *typist {
	return &typist{
		typing: typing{client: c, session: session, id: rand.Text()},
		failed: make(chan error, 1), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// add queues keys. It reports whether there was room.
func (y *typist) add(data []byte) bool {
	y.mu.Lock()
	room := len(y.queue)+len(data) <= maxTyped
	if room {
		y.queue = append(y.queue, data...)
	}
	y.mu.Unlock()
	y.signal()
	return room
}

// finish waits a moment until everything is typed.
func (y *typist) finish() {
	y.mu.Lock()
	y.close = true
	y.mu.Unlock()
	y.signal()
	select {
	case <-y.done:
	case <-time.After(lastTyped):
	}
}

func (y *typist) signal() {
	select {
	case y.wake <- struct{}{}:
	default:
	}
}

// run types until ctx ends, or until everything is typed after finish.
func (y *typist) run(ctx context.Context) {
	defer close(y.done)
	for {
		data, last := y.next()
		if len(data) > 0 {
			if err := y.write(ctx, data); err != nil {
				y.failed <- err
				return
			}
			continue
		}
		if last {
			return
		}
		select {
		case <-y.wake:
		case <-ctx.Done():
			return
		}
	}
}

func (y *typist) next() (data []byte, last bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	n := min(len(y.queue), typedAtOnce)
	data = y.queue[:n]
	if y.queue = y.queue[n:]; len(y.queue) == 0 {
		y.queue = nil
	}
	return data, y.close
}
