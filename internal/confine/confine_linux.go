package confine

import (
	"os"
	"path"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/process/nofile"
)

// direct reports whether this process can prepare the confinement for its child. It cannot prepare
// namespaces: a thread of the runner in them would be a way out for their processes.
func (c *Confinement) direct() bool { return c.Isolation == nil || c.Isolation.Namespaces == 0 }

// start starts a process that applies the confinement between fork and exec.
func (c *Confinement) start(start func(process.Spec) (*process.Process, error), spec process.Spec) (*process.Process, error) {
	var s steps
	defer s.close()
	what, err := c.join(&s)
	if err == nil {
		what, err = c.seal(&s)
	}
	if err != nil {
		return nil, &os.PathError{Op: "start confined", Path: what, Err: err}
	}
	if len(c.Join) > 0 {
		spec.CgroupFD = 0 // the calls enter the groups
	}
	spec.Calls = s.calls
	return start(spec)
}

// become applies the confinement to this process, which is a copy of the runner in its namespaces, and becomes the
// program. It returns only with an error, and what the error is about.
func (c *Confinement) become(status int, program string, argv []string) (what string, err error) {
	env := os.Environ()
	var s steps
	if what, err = c.join(&s); err == nil {
		what, err = process.Do(s.calls)
	}
	if err == nil {
		what, err = c.Isolation.enter(status)
	}
	if err == nil && c.Dir != "" {
		what, err = enterDir(c.Dir, c.NearDir)
	}
	s.calls = nil
	if err == nil {
		what, err = c.seal(&s)
	}
	if limit := nofile.Original; limit[1] != 0 {
		// The Go runtime would set it again at exec, over that of the confinement.
		_ = syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit[0], Max: limit[1]})
	}
	if err == nil {
		what, err = process.Do(s.calls)
	}
	if err != nil {
		return what, err
	}
	return program, syscall.Exec(program, argv, env)
}

// enterDir changes the directory of this process to dir, or with near to the nearest one above that
// can be entered.
func enterDir(dir string, near bool) (what string, err error) {
	for d := dir; ; d = path.Dir(d) {
		if err = enterSeen(d); err == nil || !near || d == "/" {
			return dir, err
		}
	}
}

// enterSeen changes the directory of this process to one of the tree that it sees. It does not follow
// the links of /proc to what other processes see, and enters no directory of /proc, which would keep
// showing the network of another process.
func enterSeen(dir string) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err = unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return unix.EACCES
	}
	return unix.Fchdir(fd)
}

// steps are the system calls that confine a process, and the descriptors that they use.
type steps struct {
	calls []process.Call
	fds   []int
}

func (s *steps) add(c process.Call) { s.calls = append(s.calls, c) }

// own makes a descriptor usable for the calls.
func (s *steps) own(fd int) (uintptr, error) {
	fd, err := process.CallFD(fd)
	if err == nil {
		s.fds = append(s.fds, fd)
	}
	return uintptr(fd), err
}

func (s *steps) open(file string, flags int) (uintptr, error) {
	fd, err := unix.Open(file, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	return s.own(fd)
}

// write adds a call that writes text into a file; to is its descriptor.
func (s *steps) write(what string, to uintptr, text string, optional bool) {
	bytes := []byte(text)
	s.add(process.Call{What: what, Optional: optional, Number: unix.SYS_WRITE,
		Args: [5]uintptr{to, uintptr(unsafe.Pointer(&bytes[0])), uintptr(len(bytes))}, Memory: bytes})
}

func (s *steps) close() {
	for _, fd := range s.fds {
		unix.Close(fd)
	}
}

// join adds the steps that enter the cgroups. It returns what an error is about.
func (c *Confinement) join(s *steps) (what string, err error) {
	if c.OOMScoreAdj != nil {
		// A process without it is only a less likely victim, so errors are ignored.
		file := []byte("/proc/self/oom_score_adj\x00")
		at := unix.AT_FDCWD
		s.add(process.Call{Optional: true, Number: unix.SYS_OPENAT,
			Args: [5]uintptr{uintptr(at), uintptr(unsafe.Pointer(&file[0])), unix.O_WRONLY | unix.O_CLOEXEC}, Memory: file})
		s.write("", process.LastResult, strconv.Itoa(*c.OOMScoreAdj), true)
	}
	for _, file := range c.Join {
		fd, err := s.open(file, unix.O_WRONLY)
		if err != nil {
			return file, err
		}
		s.write(file, fd, "0", false) // the writer itself
	}
	return "", nil
}

// seal adds the steps that only take away, each of which would forbid an earlier one.
func (c *Confinement) seal(s *steps) (what string, err error) {
	for _, r := range c.Rlimits {
		lim := r.lowered()
		s.add(process.Call{What: r.String(), Number: unix.SYS_PRLIMIT64,
			Args: [5]uintptr{0, uintptr(r.Resource), uintptr(unsafe.Pointer(&lim))}, Memory: &lim})
	}
	if c.Isolation == nil {
		return "", nil
	}
	return c.Isolation.seal(s)
}
