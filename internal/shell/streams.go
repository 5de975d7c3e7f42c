package shell

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/output"
)

// stream is one output FIFO of a command, read into its log.
type stream struct {
	fd     int
	which  output.Stream
	log    *output.Log
	single bool // read one buffer at a time, because Command.Full limits the output
	eof    bool // no process can write any more
	exit   bool // fd is not output: it becomes readable when a process has ended
	wide   bool // the FIFO's capacity has been raised
	wrote  *atomic.Pointer[time.Time]
}

// fullPipe is the size of a read that shows a full FIFO: the default capacity of a FIFO, less a
// part that does not fit into a page of the log.
const fullPipe = 60 << 10

// read moves available output into the log, at most 16 buffers, and reports whether there may be
// more. It sees no end of file as long as this process holds the writing end.
func (st *stream) read() bool {
	if st.exit {
		st.eof = true
		return false
	}
	for i := range 16 {
		buf := st.log.Reserve(st.which)
		n, err := unix.Read(st.fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n == 0:
			st.log.Commit(st.which, 0)
			st.eof = err != unix.EAGAIN
			return false
		}
		st.log.Commit(st.which, n)
		if !st.wide && n >= fullPipe {
			st.wide = true
			widen(st.fd)
		}
		if i == 0 {
			now := time.Now()
			st.wrote.Store(&now)
		}
		if st.single {
			return true
		}
	}
	return true
}

// fifo is an output FIFO. One command after another uses it, until a command leaves a process
// running that holds it open.
type fifo struct {
	path string // "" when a new FIFO is needed
	read int
	// write is our own writing end. While it is open, reading meets no end of file, which
	// would wake us needlessly before the command ends.
	write int
}

// open prepares the FIFO for a command: it makes a new one if needed, and opens the writing end.
func (f *fifo) open(path string) (err error) {
	if f.path == "" {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return err
		}
		if f.read, err = unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		f.path = path
	}
	f.write, err = unix.Open(f.path, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	return err
}

// forget removes the FIFO's name, so that the next open makes a new one. Its reading end stays
// open and belongs to the caller.
func (f *fifo) forget() {
	if f.path != "" {
		os.Remove(f.path)
	}
	f.path = ""
}

// discard also closes the reading end.
func (f *fifo) discard() {
	if f.path != "" {
		unix.Close(f.read)
	}
	f.forget()
}

// discardOutputs drops both FIFOs.
func (s *Shell) discardOutputs() {
	for _, f := range []*fifo{&s.out, &s.err} {
		if f.path != "" {
			s.poller.forget(f.read)
		}
		f.discard()
	}
}

// openStreams prepares the FIFOs of the command's stdout and stderr.
func (r *run) openStreams() error {
	s := r.Shell
	err := s.openOutputs()
	if err != nil {
		// A command has deleted the private directory.
		s.discardOutputs()
		if err = s.makeDir(); err == nil {
			err = s.openOutputs()
		}
	}
	if err != nil {
		return err
	}
	single := r.cmd.Full != nil
	r.streams = [2]*stream{
		{fd: s.out.read, which: output.Stdout, log: r.cmd.Log, single: single, wrote: &r.cmd.wrote},
		{fd: s.err.read, which: output.Stderr, log: r.cmd.Log, single: single, wrote: &r.cmd.wrote},
	}
	r.req.stdout, r.req.stderr = s.out.path, s.err.path
	if r.cmd.Merge {
		r.req.stderr, r.streams[1].eof = s.out.path, true
	}
	return nil
}

// openOutputs opens both output FIFOs.
func (s *Shell) openOutputs() error {
	s.outputs += 2
	if err := s.out.open(s.dir.output(s.outputs)); err != nil {
		return err
	}
	err := s.err.open(s.dir.output(s.outputs + 1))
	if err != nil {
		unix.Close(s.out.write)
	}
	return err
}

// closeOutputs closes our own writing ends of the output FIFOs.
func (s *Shell) closeOutputs() {
	unix.Close(s.out.write)
	unix.Close(s.err.write)
}

// readAll reads all output that is available in both streams.
func (r *run) readAll() {
	for _, st := range r.streams {
		for st.read() {
		}
	}
}

// hold passes the streams that have not ended to the caller, in Outcome.Held.
func (r *run) hold(complete bool) {
	if complete {
		return
	}
	s := r.Shell
	r.oc.Held = &Held{}
	for i, f := range []*fifo{&s.out, &s.err} {
		if st := r.streams[i]; !st.eof {
			r.oc.Held.streams = append(r.oc.Held.streams, st)
			s.poller.forget(st.fd)
			f.forget()
		}
	}
}
