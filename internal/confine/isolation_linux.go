package confine

import (
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// statusPair makes the two ends of a socket in which a process passes its listening socket, if it has
// one, and reports why it cannot start.
func statusPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "status"), os.NewFile(uintptr(fds[1]), "status"), nil
}

// listen reads the report of the process, and takes its listening socket.
func (c *Confinement) listen(status *os.File) ([]byte, error) {
	if c.Isolation == nil || !c.Isolation.Door {
		return io.ReadAll(status)
	}
	var first [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(int(status.Fd()), first[:], oob, unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, oobn, _, _, err = unix.Recvmsg(int(status.Fd()), first[:], oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil || n == 0 {
		return nil, err
	}
	if messages, _ := unix.ParseSocketControlMessage(oob[:oobn]); len(messages) == 1 {
		if fds, _ := unix.ParseUnixRights(&messages[0]); len(fds) == 1 {
			socket := os.NewFile(uintptr(fds[0]), "door")
			if c.Door == nil {
				socket.Close()
			} else {
				c.Door(socket)
			}
			return io.ReadAll(status)
		}
	}
	rest, err := io.ReadAll(status)
	return append(first[:n], rest...), err
}

// prepare makes a process start in its namespaces.
func (i *Isolation) prepare(spec *process.Spec) {
	if i == nil {
		return
	}
	spec.Cloneflags = i.Namespaces
	if os.Geteuid() != 0 {
		spec.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	}
}

// enter makes the namespaces of this process ready. It returns what an error is about.
func (i *Isolation) enter(status int) (what string, err error) {
	if i == nil {
		return "", nil
	}
	if i.Namespaces&unix.CLONE_NEWNET != 0 {
		if err = loopback(); err != nil {
			return "loopback interface", err
		}
		if i.Door {
			if err = openDoor(status); err != nil {
				return ProxyAddress, err
			}
		}
	}
	if i.Namespaces&unix.CLONE_NEWNS != 0 {
		return i.enterView()
	}
	return "", nil
}

// loopback starts the loopback interface of a new network namespace.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// openDoor listens at ProxyAddress and passes the socket to the runner, which is outside.
func openDoor(status int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err = unix.Bind(fd, &unix.SockaddrInet4{Port: proxyPort, Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = unix.Listen(fd, 128)
	}
	if err == nil {
		err = unix.Sendmsg(status, []byte{'d'}, unix.UnixRights(fd), nil, 0)
	}
	return err
}

// kept are the capabilities that a process of root keeps: those to work with the files that it sees.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID

// dropCapabilities drops all capabilities for good, but for those that root keeps.
func dropCapabilities() error {
	keep := uint32(0)
	if os.Geteuid() == 0 {
		keep = kept
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for c := range uintptr(64) {
		if c < 32 && keep&(1<<c) != 0 {
			continue
		}
		if held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil {
			break // the kernel knows no more
		} else if held == 1 {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // needs CAP_SETPCAP; no_new_privs does the same
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &= keep
	data[0].Permitted &= keep
	data[0].Inheritable = 0
	data[1] = unix.CapUserData{}
	return unix.Capset(&header, &data[0])
}

// seal applies what only takes away, and becomes the program.
func (i *Isolation) seal(path string, argv, env []string) (what string, err error) {
	if i == nil {
		return path, syscall.Exec(path, argv, env)
	}
	// The runner has no descriptors that its children inherit; this is for those of its starter.
	_ = unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	if err = dropCapabilities(); err != nil {
		return "capabilities", err
	}
	if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return "no_new_privs", err
	}
	if what, err = i.landlock(); err != nil {
		return what, err
	}
	program := i.filter()
	if err = setFilter(program); err != nil {
		return "seccomp", err
	}
	return path, syscall.Exec(path, argv, env)
}

func setFilter(program []unix.SockFilter) error {
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}

// Trial reports why no process can start with this isolation; nil if one can.
func Trial(start func(process.Spec) (*process.Process, error), i *Isolation) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	spec := process.Spec{Path: trialPath, Args: []string{trialPath}, Dir: "/", Files: []*os.File{null, null, null}}
	_, err = Start(start, spec, &Confinement{Isolation: i})
	if path, ok := err.(*os.PathError); ok && path.Path == trialPath {
		return nil // everything but the program, which is never there, was in order
	}
	return err
}

// trialPath is a program that does not exist.
const trialPath = "/nonexistent/trl-trial"
