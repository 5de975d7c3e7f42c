package process

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// PTY is a pseudo-terminal as its owner holds it: the master, and a descriptor of the
// slave too. With that the master can be read for as long as the owner likes: a program
// that closes its terminal and opens it again is not the end of anything. All methods may
// be called from any goroutine; it starts none.
type PTY struct {
	master *os.File // non-blocking, waited for by the Go runtime
	path   string   // of the slave
	device uint64   // number of the slave

	mu    sync.Mutex
	slave int // guarded by mu; -1 when it is closed
}

// OpenMaster makes a pseudo-terminal: the master, non-blocking, and the path of the slave.
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

// OpenPTY makes a pseudo-terminal that expects UTF-8 when it erases a character.
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

// prepare sets what terminals that speak UTF-8 set.
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

// Slave opens the slave for a child. The caller closes it when the child has it.
func (p *PTY) Slave() (*os.File, error) {
	fd, err := unix.Open(p.path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: p.path, Err: err}
	}
	return os.NewFile(uintptr(fd), p.path), nil
}

// Reopen opens the owner's descriptor of the slave again after it was hung up: by
// vhangup(2), or because the leader of the session has ended.
func (p *PTY) Reopen() error {
	fd, err := unix.Open(p.path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: p.path, Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeSlave()
	p.slave = fd
	return nil
}

// closeSlave needs mu.
func (p *PTY) closeSlave() {
	if p.slave >= 0 {
		unix.Close(p.slave)
		p.slave = -1
	}
}

// Read reads what the programs wrote, or waits for it. It fails when the slave was hung
// up, after Close, and after Interrupt with os.ErrDeadlineExceeded.
func (p *PTY) Read(b []byte) (int, error) { return p.master.Read(b) }

// TryRead reads what is there. It never waits: without anything it is 0, and after a
// hangup io.EOF.
func (p *PTY) TryRead(b []byte) (n int, err error) {
	return p.try(unix.Read, b)
}

// TryWrite types as much as there is room for, which may be nothing. It never waits.
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

// Write types b, or waits until all of it was.
func (p *PTY) Write(b []byte) (int, error) { return p.master.Write(b) }

// Interrupt makes Read return, now and in the future.
func (p *PTY) Interrupt() { p.master.SetReadDeadline(time.Unix(1, 0)) }

// Resize sets the size. The kernel signals those who should know.
func (p *PTY) Resize(cols, rows int) error {
	return p.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
	})
}

// Size is what was set last, by us or by a program.
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

// Unread is how many bytes were typed that a program could read and has not.
func (p *PTY) Unread() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slave < 0 {
		return 0
	}
	n, err := unix.IoctlGetInt(p.slave, fionread)
	if err != nil {
		return 0
	}
	return n
}

// Device is the number of the slave, for TerminalReader.
func (p *PTY) Device() uint64 { return p.device }

// control calls f with the master while it is open.
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

// Close closes the pseudo-terminal, which hangs it up for everybody. A second Close
// does nothing.
func (p *PTY) Close() {
	p.master.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeSlave()
}
