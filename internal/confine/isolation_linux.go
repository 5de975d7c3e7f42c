package confine

import (
	"io"
	"os"
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

// dropCapabilities adds the steps that drop all capabilities for good, but for those that root keeps.
func (s *steps) dropCapabilities() error {
	keep := uint32(0)
	if os.Geteuid() == 0 {
		keep = kept
	}
	s.add(process.Call{Optional: true, Number: unix.SYS_PRCTL, Args: [5]uintptr{unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL}})
	for c := range uintptr(64) {
		if c < 32 && keep&(1<<c) != 0 {
			continue
		}
		if held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil {
			break // the kernel knows no more
		} else if held == 1 { // needs CAP_SETPCAP; no_new_privs does the same
			s.add(process.Call{Optional: true, Number: unix.SYS_PRCTL, Args: [5]uintptr{unix.PR_CAPBSET_DROP, c}})
		}
	}
	set := &struct {
		header unix.CapUserHeader
		data   [2]unix.CapUserData
	}{header: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}}
	if err := unix.Capget(&set.header, &set.data[0]); err != nil {
		return err
	}
	set.data[0].Effective &= keep
	set.data[0].Permitted &= keep
	set.data[0].Inheritable = 0
	set.data[1] = unix.CapUserData{}
	s.add(process.Call{What: "capabilities", Number: unix.SYS_CAPSET,
		Args: [5]uintptr{uintptr(unsafe.Pointer(&set.header)), uintptr(unsafe.Pointer(&set.data[0]))}, Memory: set})
	return nil
}

// seal adds the steps of no_new_privs, Landlock and seccomp.
func (i *Isolation) seal(s *steps) (what string, err error) {
	// The runner has no descriptors that its children inherit; this is for those of its starter.
	s.add(process.Call{Optional: true, Number: unix.SYS_CLOSE_RANGE, Args: [5]uintptr{3, 1<<31 - 1, unix.CLOSE_RANGE_CLOEXEC}})
	if err = s.dropCapabilities(); err != nil {
		return "capabilities", err
	}
	s.add(process.Call{What: "no_new_privs", Number: unix.SYS_PRCTL, Args: [5]uintptr{unix.PR_SET_NO_NEW_PRIVS, 1}})
	if what, err = i.landlock(s); err != nil {
		return what, err
	}
	filter := i.filter()
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	s.add(process.Call{What: "seccomp", Number: unix.SYS_SECCOMP,
		Args: [5]uintptr{unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(program))}, Memory: program})
	return "", nil
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
	if path, ok := err.(*os.PathError); ok && path.Op == "start confined" && path.Path == trialPath {
		return nil // everything but the program, which is never there, was in order
	}
	return err
}

// trialPath is a program that does not exist.
const trialPath = "/nonexistent/trl-trial"
