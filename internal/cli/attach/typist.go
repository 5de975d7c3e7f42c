package attach

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

// Typist types into the terminal of a session, in order: it sends a piece when the one before
// has arrived. Each piece has an id, so that nothing is typed twice even if the daemon restarts
// meanwhile. It is safe for concurrent use.
//
// Goroutines: the one that calls Run.
type Typist struct {
	client  *client.Client
	session string
	failed  chan error    // of capacity 1: why the typist stopped
	wake    chan struct{} // of capacity 1
	done    chan struct{} // closed when Run has returned

	mu    sync.Mutex
	queue []byte // guarded by mu
	close bool   // guarded by mu; no more keys come
}

// NewTypist returns a typist for a session. The caller must call Run.
func NewTypist(c *client.Client, session string) *Typist {
	return &Typist{
		client: c, session: session,
		failed: make(chan error, 1), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Add queues keys. It reports whether there was room.
func (y *Typist) Add(data []byte) bool {
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
func (y *Typist) finish() {
	y.mu.Lock()
	y.close = true
	y.mu.Unlock()
	y.signal()
	select {
	case <-y.done:
	case <-time.After(lastTyped):
	}
}

func (y *Typist) signal() {
	select {
	case y.wake <- struct{}{}:
	default:
	}
}

// Run types until ctx ends, or until everything is typed after finish.
func (y *Typist) Run(ctx context.Context) {
	defer close(y.done)
	id := rand.Text()
	for n := 1; ; {
		data, last := y.next()
		if len(data) > 0 {
			if err := y.write(ctx, data, fmt.Sprintf("%s/%d", id, n)); err != nil {
				y.failed <- err
				return
			}
			n++
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

func (y *Typist) next() (data []byte, last bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	n := min(len(y.queue), typedAtOnce)
	data = y.queue[:n]
	if y.queue = y.queue[n:]; len(y.queue) == 0 {
		y.queue = nil
	}
	return data, y.close
}

// write types one piece. It waits for a program that has not read its earlier input.
func (y *Typist) write(ctx context.Context, data []byte, id string) error {
	p := api.SessionInputParams{SessionID: y.session, WriteID: id}
	p.Text, p.DataBase64 = ui.TextOrBase64(data)
	var pause ui.Backoff
	for {
		_, err := y.client.SessionInput(ctx, p)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != api.CodeResourcePressure {
			return err
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}
