package confine

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
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

// enterView replaces the tree that this process sees, as bubblewrap does it: the old tree moves below
// a new, empty one, its parts are mounted where they belong, and then the old tree goes.
func (i *Isolation) enterView() (what string, err error) {
	const base = "/usr" // any directory: what is mounted there leaves it again at once
	if err = unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return "mount namespace", err
	}
	if err = unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return "mount tmpfs", err
	}
	for _, d := range []string{"/old", "/new"} {
		if err = unix.Mkdir(base+d, 0o755); err != nil {
			return d, err
		}
	}
	if err = unix.PivotRoot(base, base+"/old"); err != nil {
		return "pivot_root", err
	}
	if err = unix.Mount("/new", "/new", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return "mount /new", err
	}
	tty := ""
	if name, err := os.Readlink("/old/proc/self/fd/0"); err == nil && strings.HasPrefix(name, "/dev/pts/") {
		tty = name
	}
	empty, err := unix.Open("/empty", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "empty file", err
	}
	unix.Close(empty)
	for _, m := range i.View {
		if err = m.mount(tty); err != nil {
			return m.Path, err
		}
	}
	// Now that every mount has its place, nothing more is made in the directories that are ours.
	for _, path := range append(i.hiddenDirs(), "") {
		if err = unix.MountSetattr(-1, "/new"+path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return "mount /" + path, err
		}
	}
	if err = unix.Chdir("/new"); err == nil {
		err = unix.PivotRoot(".", ".")
	}
	if err == nil {
		err = unix.Unmount(".", unix.MNT_DETACH)
	}
	if err == nil {
		err = unix.Chdir("/")
	}
	return "pivot_root", err
}

// hiddenDirs returns the directories that appear empty.
func (i *Isolation) hiddenDirs() (dirs []string) {
	for _, m := range i.View {
		var st unix.Stat_t
		if m.Kind == MountHidden && unix.Lstat("/new"+m.Path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			dirs = append(dirs, m.Path)
		}
	}
	return dirs
}

// mount makes one path of the new tree, which is at /new, out of the old tree, which is at /old.
func (m Mount) mount(tty string) error {
	at, from := "/new"+m.Path, m.From
	if from == "" {
		from = m.Path
	}
	from = "/old" + from
	switch m.Kind {
	case MountLink:
		if err := makeParents(at); err != nil {
			return err
		}
		if err := os.Symlink(m.From, at); err != nil && !os.IsExist(err) {
			return err
		}
		return nil
	case MountProc:
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		// Only processes that this one may trace are listed. Landlock says which these are.
		if unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=ptraceable") != nil {
			if err := unix.Mount(from, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
				return err
			}
		}
		return unix.MountSetattr(-1, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	case MountDev:
		return mountDev(at, tty)
	case MountHidden:
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			if err == unix.ENOENT {
				return nil // nothing is there
			}
			return err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0555,size=64k")
		}
		return unix.Mount("/empty", at, "", unix.MS_BIND, "")
	}
	if err := bind(from, at); err != nil {
		return err
	}
	if m.Kind == MountRead {
		return unix.MountSetattr(-1, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
	}
	return unix.MountSetattr(-1, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
}

// openReal opens a path that has no symbolic links. All paths of an Isolation are real when it is
// made; a link that appears later is one with which the session tries to get out.
func openReal(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// bind mounts a file or directory, and makes the place for it.
func bind(from, at string) error {
	fd, err := openReal(from)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.MkdirAll(at, 0o755)
	} else if err = makeParents(at); err == nil {
		var f *os.File
		if f, err = os.OpenFile(at, os.O_CREATE|os.O_RDONLY, 0o644); err == nil {
			f.Close()
		} else if unix.Lstat(at, &st) == nil {
			err = nil // it is there already
		}
	}
	if err != nil {
		return err
	}
	return unix.Mount("/old/proc/self/fd/"+strconv.Itoa(fd), at, "", unix.MS_BIND|unix.MS_REC, "")
}

func makeParents(path string) error {
	return os.MkdirAll(path[:strings.LastIndexByte(path, '/')], 0o755)
}

// mountDev makes a /dev with the usual devices. Its terminals are its own: those of the user's other
// programs are not there. tty is the terminal of this process, if it has one.
func mountDev(at, tty string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=1m"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := bind("/old/dev/"+name, at+"/"+name); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, at+"/"+name); err != nil {
			return err
		}
	}
	for _, d := range []string{"/pts", "/shm"} {
		if err := os.Mkdir(at+d, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmpfs", at+"/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return err
	}
	if err := unix.Mount("devpts", at+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "ptmxmode=0666,mode=0620"); err != nil {
		return err
	}
	if tty != "" {
		return bind("/old"+tty, at+"/console") // where programs find the name of their terminal
	}
	return nil
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
