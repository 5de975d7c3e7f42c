package shell

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// connect makes the stdin, stdout and stderr of a new shell process: three pipes, or one
// terminal. It returns the shell's ends.
func (s *Shell) connect() (stdin *os.File, out [2]*os.File, err error) {
	if s.dialect.terminal() {
		master, path, err := process.OpenMaster()
		if err != nil {
			return nil, out, err
		}
		slave, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			unix.Close(master)
			return nil, out, err
		}
		s.control, s.sinkOut = master, master
		s.stdio = stdioNamed(-1, -1, path)
		return slave, [2]*os.File{slave, slave}, nil
	}
	if s.dialect.script() {
		stdin, err = s.openScript()
	} else {
		var r int
		if r, s.control, err = pipe(false, true); err == nil {
			stdin = os.NewFile(uintptr(r), "control")
		}
	}
	if err != nil {
		return nil, out, err
	}
	for i, sink := range []*int{&s.sinkOut, &s.sinkErr} {
		var w int
		if *sink, w, err = pipe(true, false); err != nil {
			s.disconnect()
			stdin.Close()
			if i > 0 {
				out[0].Close()
			}
			return nil, out, err
		}
		out[i] = os.NewFile(uintptr(w), "sink")
	}
	s.stdio = stdioNamed(s.sinkOut, s.sinkErr, "")
	return stdin, out, nil
}

// openScript makes the FIFO that the shell executes as its script, and returns an empty stdin.
// closeScript removes its name when the shell has opened it. The descriptor for writing is also open
// for reading, because the shell does not read yet.
func (s *Shell) openScript() (stdin *os.File, err error) {
	path := s.dir.path + "/" + s.scriptName()
	_ = os.Remove(path)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, &os.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if stdin, err = os.Open(os.DevNull); err != nil {
		unix.Close(fd)
		return nil, err
	}
	s.control = fd
	s.packets = s.dialect.byLine() && usePackets(fd)
	return stdin, nil
}

// closeScript removes the name of the FIFO, so that no other process can write to it.
func (s *Shell) closeScript() {
	if s.dialect.script() {
		_ = os.Remove(s.dir.path + "/" + s.scriptName())
	}
}

// scriptName is the name of that FIFO: the name under which the shell was found, as long as that is
// neither an option nor the name of another file of TRL.
func (s *Shell) scriptName() string {
	name := s.cfg.Program.Argv0
	if len(name) == 1 || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "+") {
		return string(s.cfg.Program.Family)
	}
	return name
}

// pipe makes a pipe that children do not inherit. Each end can be made non-blocking.
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
