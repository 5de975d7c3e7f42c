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

// maxUnrecorded is how many bytes may wait for the disk before the recording stops.
const maxUnrecorded = 8 << 20

// errTooSlow stops a recording that the disk cannot write as fast as the program writes output.
var errTooSlow = errors.New("the disk is too slow for it")

// recorder writes the recording of a terminal. It has its own goroutine, so that a slow or broken
// disk affects only the recording. The goroutine ends after finish.
type recorder struct {
	config Config
	notify func(error) // Info has changed, or with an error, a warning

	mu      sync.Mutex
	queue   []recorded    // guarded by mu
	pending int           // guarded by mu; bytes in it
	last    bool          // guarded by mu; nothing follows the queue
	size    int64         // guarded by mu; bytes written
	stopped error         // guarded by mu; why nothing more is
	work    chan struct{} // has room for one: there is something to do
	done    chan struct{} // closed when all is written
}

// recorded is an event of the recording.
type recorded struct {
	at         time.Time
	code       string // of package cast
	data       []byte
	cols, rows int
	status     int
}

func newRecorder(c Config, begun time.Time, notify func(error)) *recorder {
	r := &recorder{config: c, notify: notify, work: make(chan struct{}, 1), done: make(chan struct{})}
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

// Pieces of output within mergeWithin become one event, up to mergeSize.
const (
	mergeWithin = time.Millisecond
	mergeSize   = 16 << 10
)

// bytes adds an event with a copy of p, or adds p to the last event of the queue if that is recent.
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

// finish ends the recording, with the exit status of the program if it has ended.
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

// wait waits until the recording is written, at most closePatience.
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
	r.notify(nil)
	if !errors.Is(why, cast.ErrLimit) {
		r.notify(fmt.Errorf("the recording stops: %w", why))
	}
}

// run writes the events of the queue until the last one.
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
		return cast.NewWriter(c.Record, cast.Header{Cols: c.Cols, Rows: c.Rows, Term: c.env("TERM"), Time: e.at, Command: c.Title, HasInput: c.RecordInput}, c.RecordLimit)
	case cast.Output:
		return w, w.Output(e.at, e.data)
	case cast.Input:
		return w, w.Input(e.at, e.data)
	case cast.Resize:
		return w, w.Resize(e.at, e.cols, e.rows)
	}
	return w, w.Exit(e.at, e.status)
}

// env returns the value of an environment variable of the program.
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
	switch {
	case r.stopped == nil:
	case errors.Is(r.stopped, cast.ErrLimit):
		info.Stopped = fmt.Sprintf("it has reached recording_bytes (%d)", r.config.RecordLimit)
	default:
		info.Stopped = r.stopped.Error()
	}
	return info
}
