package shell

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Held is the output of a command that has ended while processes that it started still hold its
// pipes open.
type Held struct {
	streams []*stream
	closed  func()
}

// Drainer reads held output to its end, so that the processes that write it are neither blocked
// by a full pipe nor killed by a closed one. It has one goroutine, which runs while any output
// is held; Close waits for it.
type Drainer struct {
	mu      sync.Mutex
	held    []*Held // guarded by mu
	running bool    // guarded by mu
	stop    bool    // guarded by mu
	wakeR   int
	wakeW   int
	done    sync.WaitGroup
}

// NewDrainer makes a Drainer.
func NewDrainer() (*Drainer, error) {
	r, w, err := pipe(true, true)
	if err != nil {
		return nil, err
	}
	return &Drainer{wakeR: r, wakeW: w}, nil
}

// Add takes over h. It calls closed once, when the output is complete.
func (d *Drainer) Add(h *Held, closed func()) {
	h.closed = closed
	d.mu.Lock()
	d.held = append(d.held, h)
	if !d.running && !d.stop {
		d.running = true
		d.done.Go(d.loop)
	}
	d.mu.Unlock()
	unix.Write(d.wakeW, []byte{0})
}

// Close stops the Drainer. It reads the available part of all held output, which then counts as
// complete.
func (d *Drainer) Close() {
	d.mu.Lock()
	d.stop = true
	d.mu.Unlock()
	unix.Write(d.wakeW, []byte{0})
	d.done.Wait()
	for _, h := range d.held {
		for _, st := range h.streams {
			for st.read() {
			}
			unix.Close(st.fd)
		}
		h.closed()
	}
	d.held = nil
	unix.Close(d.wakeR)
	unix.Close(d.wakeW)
}

// loop reads held output until none is left or Close is called.
func (d *Drainer) loop() {
	var fds []unix.PollFd
	for {
		d.mu.Lock()
		if d.stop || len(d.held) == 0 {
			d.running = false
			d.mu.Unlock()
			return
		}
		held := append([]*Held(nil), d.held...)
		d.mu.Unlock()

		fds = append(fds[:0], unix.PollFd{Fd: int32(d.wakeR), Events: unix.POLLIN})
		for _, h := range held {
			for _, st := range h.streams {
				fd := st.fd
				if st.eof {
					fd = -1
				}
				fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			}
		}
		if _, err := unix.Poll(fds, -1); err != nil {
			continue
		}
		if fds[0].Revents != 0 {
			var b [64]byte
			unix.Read(d.wakeR, b[:])
		}
		i := 1
		for _, h := range held {
			open := 0
			for _, st := range h.streams {
				if fds[i].Revents != 0 {
					st.read()
				}
				if !st.eof {
					open++
				}
				i++
			}
			if open == 0 {
				d.finish(h)
			}
		}
	}
}

// finish removes h, whose output is complete.
func (d *Drainer) finish(h *Held) {
	d.mu.Lock()
	for i, x := range d.held {
		if x == h {
			d.held = append(d.held[:i], d.held[i+1:]...)
			break
		}
	}
	d.mu.Unlock()
	for _, st := range h.streams {
		unix.Close(st.fd)
	}
	h.closed()
}
