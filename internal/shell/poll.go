package shell

import (
	"bytes"
	"time"

	"golang.org/x/sys/unix"
)

// send queues control text and writes as much of it as the shell's stdin takes.
func (s *Shell) send(text string) {
	s.pending = append(s.pending, text...)
	s.flush()
}

// flush writes as much of the queued control text as the shell's stdin takes.
func (s *Shell) flush() {
	for len(s.pending) > 0 && s.control >= 0 {
		part := s.pending
		if s.dialect.byLine() {
			if !s.packets && unread(s.control) {
				return
			}
			part = firstPacket(part)
		}
		n, err := unix.Write(s.control, part)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			if err != unix.EAGAIN {
				s.pending = nil // the shell has ended, which is reported separately
			}
			return
		}
		s.pending = s.pending[n:]
	}
}

// unreadEvery is the time between two looks whether the shell has read a line, where there are no
// packets.
const unreadEvery = 100 * time.Microsecond

// maxPacket is smaller than the buffer of the shell: a read that is too short for a packet would
// lose the rest of the packet.
const maxPacket = 512

// firstPacket returns the first line of text, or the beginning of a long line. A shell that gets
// one line at a time has an empty read buffer at the end of each line.
func firstPacket(text []byte) []byte {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i+1]
	}
	return text[:min(len(text), maxPacket)]
}

// wait blocks until there is something to read or write, or until deadline (zero: no limit). It
// reads everything that is ready: statuses, dumps, text that the shell itself prints, and the
// output of streams. It writes control text to the shell and input to the command.
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
	if s.dumping {
		// A dump arrives in many small writes, which should not wake us one by one. It is read
		// when the status reports that it is complete, and every 2 ms, before the pipe is full.
		if soon := time.Now().Add(2 * time.Millisecond); deadline.IsZero() || soon.Before(deadline) {
			deadline = soon
		}
	} else {
		add(s.state.read, unix.POLLIN)
	}
	sinkOut, sinkErr := add(s.sinkOut, unix.POLLIN), add(s.sinkErr, unix.POLLIN)
	control := -1
	if len(s.pending) > 0 && s.dialect.byLine() && !s.packets {
		if soon := time.Now().Add(unreadEvery); deadline.IsZero() || soon.Before(deadline) {
			deadline = soon
		}
		defer s.flush()
	} else if len(s.pending) > 0 {
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
		return // the caller's loop calls wait again
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
		s.readSink(&s.sinkOut, &s.printedOut)
	}
	if sinkErr >= 0 && fds[sinkErr].Revents != 0 {
		s.readSink(&s.sinkErr, &s.printedErr)
	}
	if control >= 0 && fds[control].Revents != 0 {
		s.flush()
	}
	if input >= 0 && fds[input].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
		s.inputFailed()
	}
}

// readStatus reads all statuses that have arrived.
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

// readState reads the available part of a dump of the shell's state. The dump of an exiting shell
// and that of a checkpoint arrive in the same way.
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

// maxPrinted limits how much of the text that the shell itself prints is kept.
const maxPrinted = 64 << 10

// readSink reads the text that the shell itself prints: none, as a rule.
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
			// The shell has closed it or has ended, so stop watching it.
			s.poller.forget(*sink)
			if *sink != s.control {
				unix.Close(*sink)
			}
			*sink = -1
			return
		}
		*said = append(*said, s.buf[:n]...)
		if extra := len(*said) - maxPrinted; extra > 0 {
			*said = append((*said)[:0], (*said)[extra:]...)
		}
	}
}
