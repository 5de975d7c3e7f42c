package process

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// PTY is a pseudo-terminal. It holds the master open, and the slave too, so that reading the master
// does not end when a program closes its terminal and opens it again. All methods may be called
// from any goroutine; PTY starts none.
type PTY struct {
	master *os.File // non-blocking; the Go runtime waits for it
	path   string   // of the slave
	device uint64   // device number of the slave

	mu    sync.Mutex
	slave int // guarded by mu; -1 when closed
}

// OpenMaster makes a pseudo-terminal and returns its master, non-blocking, and the slave's path.
func OpenMaster() (fd int, slave string, err error) {
	fd, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, "", &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	if slave, err = unlockSlave(fd); err != nil {
		unix.Close(fd)
		return -1, "", err
	}
	return fd, slave, nil
}

// OpenPTY makes a pseudo-terminal that erases whole UTF-8 characters.
func OpenPTY() (*PTY, error) {
	fd, slave, err := OpenMaster()
	if err != nil {
		return nil, err
	}
	p := &PTY{master: os.NewFile(uintptr(fd), "/dev/ptmx"), path: slave, slave: -1}
	if err = p.Reopen(); err == nil {
		err = p.prepare()
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// prepare sets the device number and the UTF-8 mode.
func (p *PTY) prepare() error {
	var st unix.Stat_t
	if err := unix.Fstat(p.slave, &st); err != nil {
		return &os.PathError{Op: "stat", Path: p.path, Err: err}
	}
	p.device = uint64(st.Rdev)
	mode, err := unix.IoctlGetTermios(p.slave, getTermios)
	if err == nil {
		mode.Iflag |= unix.IUTF8
		err = unix.IoctlSetTermios(p.slave, setTermios, mode)
	}
	if err != nil {
		return &os.PathError{Op: "set up", Path: p.path, Err: err}
	}
	return nil
}

// Slave opens the slave for a child. The caller closes it after starting the child.
func (p *PTY) Slave() (*os.File, error) {
	fd, err := unix.Open(p.path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: p.path, Err: err}
	}
	return os.NewFile(uintptr(fd), p.path), nil
}

// Reopen opens the PTY's own descriptor of the slave again after a hangup, by vhangup(2) or because
// the leader of the session has ended.
func (p *PTY) Reopen() error {
	fd, err := unix.Open(p.path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: p.path, Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeSlaveLocked()
	p.slave = fd
	return nil
}

func (p *PTY) closeSlaveLocked() {
	if p.slave >= 0 {
		unix.Close(p.slave)
		p.slave = -1
	}
}

// Read waits for output of the programs and reads it. It fails after a hangup of the slave, after
// Close, and after Interrupt with os.ErrDeadlineExceeded.
func (p *PTY) Read(b []byte) (int, error) { return p.master.Read(b) }

// TryRead reads the available output without waiting. It returns 0 if there is none, and io.EOF
// after a hangup.
func (p *PTY) TryRead(b []byte) (n int, err error) {
	return p.try(unix.Read, b)
}

// TryWrite types as much as there is room for, perhaps nothing, without waiting.
func (p *PTY) TryWrite(b []byte) (n int, err error) {
	return p.try(unix.Write, b)
}

func (p *PTY) try(call func(int, []byte) (int, error), b []byte) (n int, err error) {
	err = p.control(func(fd int) (err error) {
		for n, err = call(fd, b); err == unix.EINTR; {
			n, err = call(fd, b)
		}
		return err
	})
	switch {
	case err == unix.EAGAIN:
		return 0, nil
	case err == unix.EIO || err == nil && n == 0:
		return 0, io.EOF
	}
	return max(n, 0), err
}

// Write types b, and waits until there was room for all of it.
func (p *PTY) Write(b []byte) (int, error) { return p.master.Write(b) }

// Keyboard returns another descriptor of the master, for typing. The caller closes it.
func (p *PTY) Keyboard() (f *os.File, err error) {
	err = p.control(func(fd int) error {
		fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			f = os.NewFile(uintptr(fd), "/dev/ptmx")
		}
		return err
	})
	return f, err
}

// Interrupt makes Read return, now and in the future.
func (p *PTY) Interrupt() { p.master.SetReadDeadline(time.Unix(1, 0)) }

// Resize sets the size. The kernel sends SIGWINCH to the foreground process group.
func (p *PTY) Resize(cols, rows int) error {
	return p.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
	})
}

// Size returns the size that this process or a program has set last.
func (p *PTY) Size() (cols, rows int, err error) {
	err = p.control(func(fd int) error {
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			cols, rows = int(size.Col), int(size.Row)
		}
		return err
	})
	return cols, rows, err
}

// Unread returns the number of typed bytes that a program could read but has not read yet.
func (p *PTY) Unread() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slave < 0 {
		return 0
	}
	return Readable(p.slave)
}

// Readable returns the number of bytes that can be read from a pipe or terminal.
func Readable(fd int) int {
	n, err := unix.IoctlGetInt(fd, fionread)
	if err != nil {
		return 0
	}
	return n
}

// Device returns the device number of the slave, for TerminalReader.
func (p *PTY) Device() uint64 { return p.device }

// control calls f with the master's descriptor, unless it is closed.
func (p *PTY) control(f func(fd int) error) error {
	raw, err := p.master.SyscallConn()
	if err != nil {
		return err
	}
	if raw.Control(func(fd uintptr) { err = f(int(fd)) }) != nil {
		return os.ErrClosed
	}
	return err
}

// Close closes the pseudo-terminal, which is a hangup for all its programs. A second Close does
// nothing.
func (p *PTY) Close() {
	p.master.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeSlaveLocked()
}
