package terminal

import (
	"context"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/recent"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

const (
	// writesKept is how many write ids are remembered.
	writesKept = 1024
	// maxReplies is how many bytes of answers may wait for a program that sends queries and does
	// not read. Further answers are dropped.
	maxReplies = 64 << 10
	// typeSize is how many bytes are written at a time while the program does not keep up.
	typeSize = 4 << 10
)

// keyboard is the input on its way to the program: typed by a client, or sent by the
// terminal itself as the answer to a query. Input that the program has not read waits here,
// in order, so that no client waits for the program.
type keyboard struct {
	pty        *process.PTY
	limit      int64
	name       string
	goroutines *sync.WaitGroup

	mu      sync.Mutex
	queue   []typed               // guarded by mu; input that the pseudo-terminal has not taken
	pending int64                 // guarded by mu; bytes in the queue that clients typed
	replies int                   // guarded by mu; bytes in the queue that are answers
	taken   int64                 // guarded by mu; bytes that clients have typed in all
	typing  bool                  // guarded by mu; a goroutine empties the queue
	ended   bool                  // guarded by mu; the program has ended
	writes  *recent.Map[struct{}] // guarded by mu; the newest write ids
}

// typed is a piece of the queue.
type typed struct {
	data  []byte
	reply bool
}

// Input types data, with p.Paste as a paste, and then keys. It returns when the bytes are
// accepted. By then the kernel has them, unless the program does not read.
func (t *Terminal) Input(_ context.Context, p link.SessionInputParams, data []byte) (api.SessionInputResult, error) {
	k := &t.keyboard
	if p.Close {
		return api.SessionInputResult{}, api.InvalidParam("close", "is only for programs; in a terminal the key ctrl-d ends the input")
	}
	k.mu.Lock() // held to the end, so that a repetition finds the id of the first write
	defer k.mu.Unlock()
	if k.writes.Has(p.WriteID) {
		return api.SessionInputResult{Written: k.taken, Repeated: true}, nil
	}
	if k.ended {
		return api.SessionInputResult{}, t.hasEnded()
	}
	data, err := t.translate(p, data)
	if err != nil {
		return api.SessionInputResult{}, err
	}
	switch n := int64(len(data)); {
	case k.limit > 0 && n > k.limit:
		return api.SessionInputResult{}, api.Errorf(api.CodeRequestTooLarge, "params.data: %d bytes, at most %d (max_stdin_bytes)", n, k.limit)
	case k.limit > 0 && k.pending+n > k.limit:
		return api.SessionInputResult{}, api.Errorf(api.CodeResourcePressure,
			"%s: %d bytes wait for the program to read them, and %d more would exceed %d (max_stdin_bytes); try again later", k.name, k.pending, n, k.limit)
	}
	if t.recorder != nil && t.config.RecordInput {
		t.recorder.input(time.Now(), data)
	}
	k.taken += int64(len(data))
	k.pending += int64(len(data))
	k.addLocked(typed{data: data})
	if p.WriteID != "" {
		k.writes.Put(p.WriteID, struct{}{})
	}
	return api.SessionInputResult{Bytes: int64(len(data)), Written: k.taken}, nil
}

// translate returns the bytes of the input in the encoding that the program has asked for.
func (t *Terminal) translate(p link.SessionInputParams, data []byte) (typed []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.typed = time.Now()
	t.screen.do(t.offset, func(v *vt.Terminal) {
		typed, err = data, nil
		if p.Paste {
			typed = v.Paste(string(data))
		}
		typed = typed[:len(typed):len(typed)]
		for i, name := range p.Keys {
			key, bad := v.Key(name)
			if bad != nil {
				err = api.InvalidParam("keys", "entry %d: %s", i, bad)
				return
			}
			typed = append(typed, key...)
		}
	})
	return typed, err
}

// reply types the answer to a query of the program. It does not count against the limit of
// typed input.
func (k *keyboard) reply(data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended || k.replies+len(data) > maxReplies {
		return
	}
	k.replies += len(data)
	k.addLocked(typed{data: data, reply: true})
}

// addLocked queues a piece and types as much of the queue as the pseudo-terminal takes.
func (k *keyboard) addLocked(piece typed) {
	if len(piece.data) == 0 {
		return
	}
	k.queue = append(k.queue, piece)
	if k.typing {
		return
	}
	for len(k.queue) > 0 {
		n, err := k.pty.TryWrite(k.queue[0].data)
		if k.wroteLocked(n, err); n == 0 {
			break
		}
	}
	if len(k.queue) > 0 {
		k.typing = true
		k.goroutines.Go(k.empty)
	}
}

// empty writes the queue, as fast as the program reads.
func (k *keyboard) empty() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.queue) > 0 {
		data := k.queue[0].data
		k.mu.Unlock()
		n, err := k.pty.Write(data[:min(len(data), typeSize)])
		k.mu.Lock()
		k.wroteLocked(n, err)
	}
	k.typing = false
}

// wroteLocked takes n bytes from the queue, or all of them after an error, when no process
// reads the terminal any more.
func (k *keyboard) wroteLocked(n int, err error) {
	if len(k.queue) == 0 {
		return // it ended meanwhile
	}
	if err != nil {
		k.queue, k.pending, k.replies = nil, 0, 0
		return
	}
	first := &k.queue[0]
	if first.reply {
		k.replies -= n
	} else {
		k.pending -= int64(n)
	}
	if first.data = first.data[n:]; len(first.data) == 0 {
		*first = typed{}
		if k.queue = k.queue[1:]; len(k.queue) == 0 {
			k.queue = nil
		}
	}
}

// end drops the queue, because the program has ended.
func (k *keyboard) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.queue, k.pending, k.replies = nil, 0, 0
}

// unread reports whether there is input that the program has not read, and how many bytes clients
// have typed in all.
func (k *keyboard) unread() (unread bool, taken int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.queue) > 0 || k.pty.Unread() > 0, k.taken
}
