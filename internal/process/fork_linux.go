package process

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process/nofile"
)

// Call is a system call that a child makes for itself between fork and exec, where no Go code can run.
type Call struct {
	// What names the object of the call, for its error. The error of an Optional call is ignored.
	What     string
	Optional bool
	Number   uintptr
	Args     [5]uintptr
	// Memory is what the arguments point to. It is here so that it stays.
	Memory any
}

// LastResult as the first argument stands for the result of the previous call.
const LastResult = 1 << 62

// Do makes calls in this thread. It returns what an error is about.
func Do(calls []Call) (what string, err error) {
	var last uintptr
	for i := range calls {
		c := &calls[i]
		first := c.Args[0]
		if first == LastResult {
			first = last
		}
		var errno syscall.Errno
		if last, _, errno = syscall.RawSyscall6(c.Number, first, c.Args[1], c.Args[2], c.Args[3], c.Args[4], 0); errno != 0 && !c.Optional {
			return c.What, errno
		}
	}
	runtime.KeepAlive(calls)
	return "", nil
}

// callFD is above every descriptor that a child gets. Those of its calls are not below, so that the files of
// the child do not replace them. It is well below 64, because the kernel makes a process with threads wait
// for milliseconds when it first needs a table of more than 64 descriptors.
const callFD = 32

// CallFD moves a descriptor of this process to where a Call can use it. It closes fd.
func CallFD(fd int) (int, error) {
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, callFD)
	unix.Close(fd)
	return moved, err
}

// child is what a new process needs until it becomes its program. All of it is allocated before the fork.
type child struct {
	path, dir       *byte // dir may be nil
	argv, envv      []*byte
	fds             []int // become 0, 1, 2 and so on
	setsid, setctty bool
	clone           *cloneArgs // nil for clone(2)
	limit           *[2]uint64 // of open files; nil if it is not known
	calls           []Call
	status          int // where the child writes its failure; exec closes it
	failure         failure
}

// failure says which step of a child failed, and why.
type failure struct {
	step  int32 // the number of a call, or one of those below
	errno uint32
}

// The steps that are not calls: those before, which the rest of a Spec wants, and exec.
const (
	stepSpec = -1
	stepExec = -2
)

// cloneArgs are those of clone3(2), as Linux 5.7 has them.
type cloneArgs struct {
	flags, pidFD, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// forkExec starts the program of a Spec with Calls. Unlike that of package syscall, the child does not share
// the memory of this process until exec, but has a copy.
func forkExec(spec Spec, fds []uintptr) (pid int, err error) {
	c := &child{setsid: spec.Setsid, setctty: spec.Setctty, calls: spec.Calls}
	if c.path, err = syscall.BytePtrFromString(spec.Path); err != nil {
		return 0, err
	}
	if c.argv, err = syscall.SlicePtrFromStrings(spec.Args); err != nil {
		return 0, err
	}
	if c.envv, err = syscall.SlicePtrFromStrings(spec.Env); err != nil {
		return 0, err
	}
	if spec.Dir != "" {
		if c.dir, err = syscall.BytePtrFromString(spec.Dir); err != nil {
			return 0, err
		}
	}
	if len(fds) > callFD {
		return 0, syscall.EMFILE
	}
	if len(fds) < 3 || spec.Cloneflags != 0 || len(spec.AmbientCaps) > 0 {
		return 0, syscall.EINVAL // package syscall can do these, the child here cannot
	}
	for _, fd := range fds {
		c.fds = append(c.fds, int(fd))
	}
	if spec.CgroupFD > 0 {
		c.clone = &cloneArgs{flags: unix.CLONE_INTO_CGROUP, exitSignal: uint64(syscall.SIGCHLD), cgroup: uint64(spec.CgroupFD)}
	}
	if nofile.Original[1] != 0 {
		c.limit = &nofile.Original
	}
	var pipe [2]int
	if err = unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer unix.Close(pipe[0])
	if c.status, err = CallFD(pipe[1]); err != nil {
		return 0, err
	}
	syscall.ForkLock.Lock()
	id, errno := c.fork()
	syscall.ForkLock.Unlock()
	unix.Close(c.status)
	if errno != 0 {
		return 0, errno
	}
	var f failure
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&f)), unsafe.Sizeof(f))
	n, err := unix.Read(pipe[0], bytes)
	for err == unix.EINTR {
		n, err = unix.Read(pipe[0], bytes)
	}
	if n == 0 && err == nil {
		return int(id), nil
	}
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Wait4(int(id), nil, 0, nil)
	}
	what := spec.Path
	switch {
	case f.step == stepSpec:
		return 0, syscall.Errno(f.errno)
	case f.step >= 0:
		what = spec.Calls[f.step].What
	}
	return 0, &os.PathError{Op: "start confined", Path: what, Err: syscall.Errno(f.errno)}
}

// fork makes the child, which never returns from here. In the child it must not allocate, lock, grow the stack or
// call Go code that could: other threads do not exist there, and may have held locks of the Go runtime. Package
// syscall has the same rules for its own.
//
//go:noinline
//go:norace
//go:nocheckptr
func (c *child) fork() (pid uintptr, errno syscall.Errno) {
	var i int
	var last, first uintptr
	var call *Call

	beforeFork()
	if c.clone != nil {
		pid, _, errno = syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(c.clone)), unsafe.Sizeof(*c.clone), 0)
	} else {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	}
	if errno != 0 || pid != 0 {
		afterFork()
		return pid, errno
	}
	afterForkInChild()

	c.failure.step = stepSpec
	if c.setsid {
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	for i = 0; i < len(c.fds); i++ {
		if c.fds[i] < i { // it is replaced before its turn comes
			if last, _, errno = syscall.RawSyscall(unix.SYS_FCNTL, uintptr(c.fds[i]), unix.F_DUPFD_CLOEXEC, callFD); errno != 0 {
				goto failed
			}
			c.fds[i] = int(last)
		}
	}
	for i = 0; i < len(c.fds); i++ {
		if c.fds[i] == i {
			_, _, errno = syscall.RawSyscall(unix.SYS_FCNTL, uintptr(i), unix.F_SETFD, 0)
		} else {
			_, _, errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.fds[i]), uintptr(i), 0)
		}
		if errno != 0 {
			goto failed
		}
	}
	if c.setctty {
		if _, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1); errno != 0 {
			goto failed
		}
	}
	if c.dir != nil {
		if _, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); errno != 0 {
			goto failed
		}
	}
	if c.limit != nil {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(c.limit)), 0, 0, 0)
	}
	for i = 0; i < len(c.calls); i++ {
		c.failure.step = int32(i)
		call = &c.calls[i]
		if first = call.Args[0]; first == LastResult {
			first = last
		}
		last, _, errno = syscall.RawSyscall6(call.Number, first, call.Args[1], call.Args[2], call.Args[3], call.Args[4], 0)
		if errno != 0 && !call.Optional {
			goto failed
		}
	}
	c.failure.step = stepExec
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)), uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.envv[0])))

failed:
	c.failure.errno = uint32(errno)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.status), uintptr(unsafe.Pointer(&c.failure)), unsafe.Sizeof(c.failure))
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 126, 0, 0)
	}
}

// The functions with which package syscall prepares the Go runtime for a fork: they block signals,
// and in the child they remove the handlers. The runtime keeps these names for programs such as
// gVisor (go.dev/issue/67401).
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()
