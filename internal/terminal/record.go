package terminal

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/terminal/cast"
)

// maxUnrecorded is how far a disk may fall behind before the recording is given up.
const maxUnrecorded = 8 << 20

// errTooSlow is why a recording stops that cannot be written as fast as the program writes.
var errTooSlow = errors.New("the disk is too slow for it")

// recorder writes the recording of a terminal from a goroutine of its own, so that a
// slow or broken disk hurts nothing but the recording. The goroutine ends after finish.
type recorder struct {
	config Config
	tell   func(error) // what Info has to say has changed, or what is wrong

	mu      sync.Mutex
	queue   []recorded    // guarded by mu
	pending int           // guarded by mu; bytes in it
	last    bool          // guarded by mu; nothing follows the queue
	size    int64         // guarded by mu; bytes written
	stopped error         // guarded by mu; why nothing more is
	work    chan struct{} // has room for one: there is something to do
	done    chan struct{} // closed when all is written
}

// recorded is something to be written.
type recorded struct {
	at         time.Time
	code       string // of package cast
	data       []byte
	cols, rows int
	status     int
}

func newRecorder(c Config, begun time.Time, tell func(error)) *recorder {
	r := &recorder{config: c, tell: tell, work: make(chan struct{}, 1), done: make(chan struct{})}
	r.addLocked(recorded{at: begun}) // the header
	go r.run()
	return r
}

func (r *recorder) output(at time.Time, p []byte) { r.bytes(at, cast.Output, p) }
func (r *recorder) input(at time.Time, p []byte)  { r.bytes(at, cast.Input, p) }

func (r *recorder) resize(at time.Time, cols, rows int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(recorded{at: at, code: cast.Resize, cols: cols, rows: rows})
}

// Pieces of output that are as close to each other become one event, up to that size.
const (
	mergeWithin = time.Millisecond
	mergeSize   = 16 << 10
)

// bytes adds an event with a copy of p. What follows at once on what waits becomes part of it.
func (r *recorder) bytes(at time.Time, code string, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.queue); n > 0 && r.pending+len(p) <= maxUnrecorded {
		if last := &r.queue[n-1]; last.code == code && at.Sub(last.at) < mergeWithin && len(last.data) < mergeSize {
			last.data = append(last.data, p...)
			r.pending += len(p)
			return
		}
	}
	r.addLocked(recorded{at: at, code: code, data: append([]byte(nil), p...)})
}

// addLocked queues an event, or gives the recording up when the disk is too far behind.
func (r *recorder) addLocked(e recorded) {
	switch {
	case r.stopped != nil || r.last:
		return
	case r.pending+len(e.data) > maxUnrecorded:
		r.stopLocked(errTooSlow)
		return
	}
	r.queue = append(r.queue, e)
	r.pending += len(e.data)
	r.wake()
}

func (r *recorder) wake() {
	select {
	case r.work <- struct{}{}:
	default:
	}
}

// finish ends the recording, with how the program ended if it has.
func (r *recorder) finish(at time.Time, p *process.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-p.Done():
		r.addLocked(recorded{at: at, code: cast.Exit, status: p.Exit().Code()})
	default:
	}
	r.last = true
	r.wake()
}

// closePatience is how long a disk may take to write the rest of a recording.
const closePatience = 5 * time.Second

// wait waits until all is written, but not for ever.
func (r *recorder) wait() {
	late := time.NewTimer(closePatience)
	defer late.Stop()
	select {
	case <-r.done:
	case <-late.C:
	}
}

// stopLocked gives the recording up.
func (r *recorder) stopLocked(why error) {
	r.stopped, r.queue, r.pending = why, nil, 0
	r.tell(nil)
	if !errors.Is(why, cast.ErrLimit) {
		r.tell(fmt.Errorf("the recording stops: %w", why))
	}
}

// run writes what is to be written until nothing follows.
func (r *recorder) run() {
	defer close(r.done)
	defer r.config.Record.Close()
	var w *cast.Writer
	for range r.work {
		r.mu.Lock()
		queue, last := r.queue, r.last
		r.queue, r.pending = nil, 0
		r.mu.Unlock()
		var err error
		for i := 0; i < len(queue) && err == nil; i++ {
			w, err = r.write(w, queue[i])
		}
		r.mu.Lock()
		if w != nil {
			r.size = w.Size()
		}
		if err != nil && r.stopped == nil {
			r.stopLocked(err)
		}
		r.mu.Unlock()
		if last {
			return
		}
	}
}

func (r *recorder) write(w *cast.Writer, e recorded) (*cast.Writer, error) {
	switch e.code {
	case "":
		c := &r.config
		return cast.NewWriter(c.Record, cast.Header{Cols: c.Cols, Rows: c.Rows, Term: c.env("TERM"), Time: e.at, Command: c.Title}, c.RecordLimit)
	case cast.Output:
		return w, w.Output(e.at, e.data)
	case cast.Input:
		return w, w.Input(e.at, e.data)
	case cast.Resize:
		return w, w.Resize(e.at, e.cols, e.rows)
	}
	return w, w.Exit(e.at, e.status)
}

// env is the value of a variable of the program.
func (c *Config) env(name string) string {
	for _, v := range c.Env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

func (r *recorder) info() *api.RecordingInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	info := &api.RecordingInfo{Bytes: r.size, Input: r.config.RecordInput}
	if f, ok := r.config.Record.(interface{ Name() string }); ok {
		info.Path = f.Name()
	}
	switch {
	case r.stopped == nil:
	case errors.Is(r.stopped, cast.ErrLimit):
		info.Stopped = fmt.Sprintf("it has reached recording_bytes (%d)", r.config.RecordLimit)
	default:
		info.Stopped = r.stopped.Error()
	}
	return info
}
