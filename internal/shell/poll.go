package shell

import (
	"bytes"
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
	single bool // read one buffer at a time, because somebody counts
	eof    bool // nobody can write any more
	exit   bool // it is no output: it can be read when a process has ended
	wide   bool // the FIFO takes more than by default
	wrote  *atomic.Pointer[time.Time]
}

// fullPipe is what a FIFO takes by default, less the end of a page of the log.
const fullPipe = 60 << 10

// read moves what is there into the log, at most a few buffers. It reports
// whether there may be more. As long as we hold the writing end there is no end.
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

// send queues control text.
func (s *Shell) send(text string) {
	s.pending = append(s.pending, text...)
	s.flush()
}

func (s *Shell) flush() {
	for len(s.pending) > 0 && s.control >= 0 {
		part := s.pending
		if s.dialect.readsAhead() {
			part = firstPacket(part)
		}
		n, err := unix.Write(s.control, part)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			if err != unix.EAGAIN {
				s.pending = nil // the shell is gone; its death is reported apart
			}
			return
		}
		s.pending = s.pending[n:]
	}
}

// maxPacket is less than any stdio buffer: a read that is too short for a packet would
// lose the rest of it.
const maxPacket = 512

// firstPacket is the first line of text, or the beginning of a long one: whoever reads
// lines through a buffer has nothing left in it at the end of a line.
func firstPacket(text []byte) []byte {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i+1]
	}
	return text[:min(len(text), maxPacket)]
}

// wait blocks until something has happened, at the latest until deadline (zero:
// no limit), and takes in everything that is ready: statuses, dumps, what the
// shell itself prints, and the output of streams. Input goes to the command meanwhile.
func (s *Shell) wait(deadline time.Time, streams ...*stream) {
	var fds [10]unix.PollFd
	n := 0
	add := func(fd int, events int16) int {
		if fd < 0 {
			return -1
		}
		fds[n] = unix.PollFd{Fd: int32(fd), Events: events}
		n++
		return n - 1
	}
	add(s.wakeR, unix.POLLIN)
	add(s.status.read, unix.POLLIN)
	if s.patient {
		// A dump comes in many small writes. It is taken in when the status says that
		// it is complete, or from time to time, before the pipe is full.
		if soon := time.Now().Add(2 * time.Millisecond); deadline.IsZero() || soon.Before(deadline) {
			deadline = soon
		}
	} else {
		add(s.state.read, unix.POLLIN)
	}
	sinkOut, sinkErr := add(s.sinkOut, unix.POLLIN), add(s.sinkErr, unix.POLLIN)
	control := -1
	if len(s.pending) > 0 {
		if s.control == s.sinkOut && sinkOut >= 0 {
			fds[sinkOut].Events |= unix.POLLOUT
			control = sinkOut
		} else {
			control = add(s.control, unix.POLLOUT)
		}
	}
	input := -1
	if s.input != nil {
		input = add(s.watchInput())
	}
	first := n
	for _, st := range streams {
		fd := st.fd
		if st.eof {
			fd = -1 // poll ignores it
		}
		fds[n] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		n++
	}
	if s.poller.wait(fds[:n], deadline) != nil {
		return // the caller looks again
	}
	for i, st := range streams {
		if fds[first+i].Revents != 0 {
			st.read()
		}
	}
	if fds[0].Revents != 0 {
		var b [64]byte
		unix.Read(s.wakeR, b[:])
	}
	s.readStatus()
	s.readState()
	if sinkOut >= 0 && fds[sinkOut].Revents&^unix.POLLOUT != 0 {
		s.readSink(&s.sinkOut, &s.saidOut)
	}
	if sinkErr >= 0 && fds[sinkErr].Revents != 0 {
		s.readSink(&s.sinkErr, &s.saidErr)
	}
	if control >= 0 && fds[control].Revents != 0 {
		s.flush()
	}
	if input >= 0 && fds[input].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
		s.inputFailed()
	}
}

func (s *Shell) readStatus() {
	buf := s.buf[:4096]
	for {
		n, err := unix.Read(s.status.read, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		s.statusBuf = append(s.statusBuf, buf[:n]...)
		for {
			st, rest, ok := parseStatus(s.statusBuf)
			s.statusBuf = rest
			if !ok {
				break
			}
			s.statuses = append(s.statuses, st)
		}
		if n < len(buf) {
			return
		}
	}
}

// readState takes in a dump of the shell's state. What a dying shell says and
// what a living one says for a checkpoint arrive the same way.
func (s *Shell) readState() {
	got := false
	for {
		n, err := unix.Read(s.state.read, s.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		got = true
		if len(s.stateBuf) < maxDump {
			s.stateBuf = append(s.stateBuf, s.buf[:n]...)
		}
	}
	if got && bytes.HasSuffix(s.stateBuf, []byte(dumpEnd)) {
		if st := parseDump(s.stateBuf, s.dialect.statements); st != nil {
			s.exitDump = st
		}
		s.stateBuf = nil
	}
}

// maxSaid is how much is kept of what the shell prints itself.
const maxSaid = 64 << 10

// readSink takes in what the shell prints itself: nothing, as a rule.
func (s *Shell) readSink(sink *int, said *[]byte) {
	for *sink >= 0 {
		n, err := unix.Read(*sink, s.buf)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			return
		}
		if err != nil || n <= 0 {
			// The shell has closed it, or is gone: stop looking.
			s.poller.forget(*sink)
			if *sink != s.control {
				unix.Close(*sink)
			}
			*sink = -1
			return
		}
		*said = append(*said, s.buf[:n]...)
		if extra := len(*said) - maxSaid; extra > 0 {
			*said = append((*said)[:0], (*said)[extra:]...)
		}
	}
}
