package shell

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for several descriptors at once without blocking a thread: they are in an epoll
// set, and the Go runtime's own poller watches that set. A thread that blocks in poll(2) would
// keep its share of the scheduler until the runtime takes it away, which costs more time than a
// short command.
type poller struct {
	set   *os.File
	raw   syscall.RawConn
	epoll int
	known map[int32]int16 // content of the set: descriptor → events
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	unix.SetNonblock(fd, true)
	p := &poller{set: os.NewFile(uintptr(fd), "epoll"), epoll: fd, known: map[int32]int16{}}
	if p.raw, err = p.set.SyscallConn(); err != nil {
		p.set.Close()
		return nil, err
	}
	return p, nil
}

// wait fills in the Revents of fds. It skips negative descriptors, as poll(2) does; a zero
// deadline means no limit.
func (p *poller) wait(fds []unix.PollFd, deadline time.Time) error {
	if err := p.update(fds); err != nil {
		return err
	}
	var events [10]unix.EpollEvent
	n := 0
	look := func(uintptr) bool {
		n, _ = unix.EpollWait(p.epoll, events[:], 0)
		return n > 0
	}
	if rest := time.Until(deadline); rest < time.Millisecond && !deadline.IsZero() {
		// The Go runtime waits for whole milliseconds.
		ts := unix.NsecToTimespec(int64(max(rest, 0)))
		if _, err := unix.Ppoll(fds, &ts, nil); err != unix.EINTR {
			return err
		}
		return nil
	}
	if !look(0) {
		if err := p.set.SetReadDeadline(deadline); err != nil {
			return err
		}
		if err := p.raw.Read(look); err != nil && !os.IsTimeout(err) {
			return err
		}
	}
	for _, e := range events[:max(n, 0)] {
		for i := range fds {
			if fds[i].Fd == e.Fd {
				fds[i].Revents = int16(e.Events)
			}
		}
	}
	return nil
}

// update changes the epoll set to the descriptors and events of fds.
func (p *poller) update(fds []unix.PollFd) error {
	wanted := 0
	for _, f := range fds {
		if f.Fd < 0 {
			continue
		}
		wanted++
		had, ok := p.known[f.Fd]
		if ok && had == f.Events {
			continue
		}
		op := unix.EPOLL_CTL_ADD
		if ok {
			op = unix.EPOLL_CTL_MOD
		}
		if err := unix.EpollCtl(p.epoll, op, int(f.Fd), &unix.EpollEvent{Events: uint32(f.Events), Fd: f.Fd}); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
		p.known[f.Fd] = f.Events
	}
	if len(p.known) == wanted {
		return nil
	}
	for fd := range p.known {
		if !watches(fds, fd) {
			p.forget(int(fd))
		}
	}
	return nil
}

func watches(fds []unix.PollFd, fd int32) bool {
	for _, f := range fds {
		if f.Fd == fd {
			return true
		}
	}
	return false
}

// forget removes a descriptor from the set. It must be called before the descriptor is closed or
// given away.
func (p *poller) forget(fd int) {
	if _, ok := p.known[int32(fd)]; ok {
		unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, fd, nil)
		delete(p.known, int32(fd))
	}
}

func (p *poller) close() {
	if p != nil {
		p.set.Close()
	}
}

// widePipe is the capacity of a FIFO whose command writes faster than this process reads, so that
// the two wait for each other less often. It is not larger, because all pipes of a user together
// are limited to 64 MiB.
const widePipe = 256 << 10

// widen raises the capacity of a FIFO, unless the system refuses.
func widen(fd int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, widePipe) }
