package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Handover is a listening socket for the next program of the same process: descriptors that stay open
// over exec. It includes the lock, so no other daemon can take the socket meanwhile.
type Handover struct {
	Socket int
	Lock   int // 0 for none
}

// HandOver makes descriptors for the next program. The listener itself may be closed
// then; the socket stays, and clients that connect meanwhile wait in its queue.
func (l *Listener) HandOver() (Handover, error) {
	var h Handover
	l.mu.Lock()
	defer l.mu.Unlock()
	raw, err := l.socket.SyscallConn()
	if err != nil {
		return h, err
	}
	controlErr := raw.Control(func(fd uintptr) { h.Socket, err = unix.FcntlInt(fd, unix.F_DUPFD, 3) })
	if controlErr != nil {
		err = controlErr
	}
	if err == nil && l.lock != nil {
		h.Lock, err = unix.FcntlInt(l.lock.Fd(), unix.F_DUPFD, 3)
	}
	if err != nil {
		return h, fmt.Errorf("socket %s: hand over: %w", l.path, err)
	}
	l.keep = true
	return h, nil
}

// Adopt takes over a socket that already listens: from the previous daemon, with its lock; or
// from a service manager, which keeps the socket and starts only one daemon, so that no lock is
// needed.
func Adopt(h Handover) (*Listener, error) {
	unix.CloseOnExec(h.Socket)
	f := os.NewFile(uintptr(h.Socket), "socket")
	defer f.Close() // FileListener has its own
	any, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("inherited socket: %w", err)
	}
	ln, ok := any.(*net.UnixListener)
	if !ok {
		any.Close()
		return nil, fmt.Errorf("inherited socket: %s is not a unix socket", any.Addr())
	}
	ln.SetUnlinkOnClose(false)
	// Clients ask the kernel which process called listen(2) last. That must be the daemon, not
	// its service manager.
	if err := listenAgain(ln); err != nil {
		ln.Close()
		return nil, fmt.Errorf("inherited socket: %w", err)
	}
	l := &Listener{socket: ln, path: ln.Addr().String(), keep: h.Lock == 0, closing: make(chan struct{})}
	if h.Lock > 0 {
		unix.CloseOnExec(h.Lock)
		l.lock = os.NewFile(uintptr(h.Lock), "lock")
	}
	l.inode, err = os.Lstat(l.path)
	if errors.Is(err, fs.ErrNotExist) { // removed while no daemon watched it
		_, err = l.restore()
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("socket %s: %w", l.path, err)
	}
	return l, nil
}

func listenAgain(ln *net.UnixListener) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	if controlErr := raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), unix.SOMAXCONN) }); controlErr != nil {
		err = controlErr
	}
	return err
}
