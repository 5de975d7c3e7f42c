package ssh

import "sync"

// tailBytes is how much of stderr is kept.
const tailBytes = 4 << 10

// tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu sync.Mutex
	b  []byte // guarded by mu
}

// Write keeps the last bytes of p, and of what came before.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if drop := len(t.b) - tailBytes; drop > 0 {
		t.b = append(t.b[:0], t.b[drop:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
