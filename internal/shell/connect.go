package shell

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// connect makes the control channel and the sink of a new shell process: two
// pipes, or one terminal. It returns the shell's ends.
func (s *Shell) connect() (stdin *os.File, out [2]*os.File, err error) {
	if s.dialect.terminal() {
		master, slave, err := openTerminal()
		if err != nil {
			return nil, out, err
		}
		s.control, s.sink = master, master
		return slave, [2]*os.File{slave, slave}, nil
	}
	inR, inW, err := pipe(false, true)
	if err != nil {
		return nil, out, err
	}
	sinkR, sinkW, err := pipe(true, false)
	if err != nil {
		unix.Close(inR)
		unix.Close(inW)
		return nil, out, err
	}
	s.control, s.sink = inW, sinkR
	w := os.NewFile(uintptr(sinkW), "sink")
	return os.NewFile(uintptr(inR), "control"), [2]*os.File{w, w}, nil
}

// pipe makes a pipe that no child inherits; each end may be non-blocking.
func pipe(nonblockR, nonblockW bool) (r, w int, err error) {
	var p [2]int
	syscall.ForkLock.RLock()
	if err = unix.Pipe(p[:]); err == nil {
		unix.CloseOnExec(p[0])
		unix.CloseOnExec(p[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return -1, -1, os.NewSyscallError("pipe", err)
	}
	if nonblockR {
		unix.SetNonblock(p[0], true)
	}
	if nonblockW {
		unix.SetNonblock(p[1], true)
	}
	return p[0], p[1], nil
}
