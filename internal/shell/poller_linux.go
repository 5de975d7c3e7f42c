package shell

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for several descriptors at once without holding up a thread: they
// are in an epoll set of their own, and that set is itself watched by the Go
// runtime's poller. poll(2) would do the same, but a thread that blocks in it keeps
// its share of the scheduler until the runtime takes that away again, which costs
// more than a short command.
type poller struct {
	set   *os.File
	raw   syscall.RawConn
	epoll int
	known map[int32]int16 // what is in the set: descriptor → events
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

// wait fills in the Revents of fds. A negative descriptor is passed over, as by
// poll(2); a zero deadline is none.
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

// update makes the set what fds says.
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

// forget takes a descriptor out. It must be called before the descriptor is closed
// or given away.
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

// widePipe is what a FIFO takes whose command writes faster than we read: both then wait for
// each other less often. All pipes of a user together may take 64 MiB, so it is not more.
const widePipe = 256 << 10

// widen gives a FIFO more room, unless the system refuses.
func widen(fd int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, widePipe) }
