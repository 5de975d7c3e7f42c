package shell

import (
	"os"
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
	var ends [6]int
	for i := 0; i < len(ends); i += 2 {
		// The shell reads from the first pipe; this process reads from the others.
		if ends[i], ends[i+1], err = pipe(i > 0, i == 0); err != nil {
			for _, fd := range ends[:i] {
				unix.Close(fd)
			}
			return nil, out, err
		}
	}
	if s.dialect.readsAhead() {
		if err = usePackets(&ends[0], &ends[1]); err != nil {
			for _, fd := range ends {
				unix.Close(fd)
			}
			return nil, out, err
		}
	}
	s.control, s.sinkOut, s.sinkErr = ends[1], ends[2], ends[4]
	s.stdio = stdioNamed(s.sinkOut, s.sinkErr, "")
	return os.NewFile(uintptr(ends[0]), "control"), [2]*os.File{os.NewFile(uintptr(ends[3]), "stdout"), os.NewFile(uintptr(ends[5]), "stderr")}, nil
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
