package isolation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/confine"
	"github.com/trl-dev/trl/internal/isolation"
	"github.com/trl-dev/trl/internal/process"
)

// Variables of the test program when it starts itself again.
const (
	envAttack = "TRL_TEST_ATTACK" // what the attacker knows, as JSON
	envUser   = "TRL_TEST_USER"   // the directory for the tests of a user who is not root
)

// otherUser is a user id that no program of the machine has.
const otherUser = 61937

// TestMain is also the confined process before it becomes the attacker, and the attacker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == confine.Verb {
		os.Exit(confine.Enter(os.Args[2:]))
	}
	if text := os.Getenv(envAttack); text != "" {
		var k knowledge
		if err := json.Unmarshal([]byte(text), &k); err != nil {
			panic(err)
		}
		if len(os.Args) > 2 && os.Args[1] == "only" {
			fmt.Print(attempts[os.Args[2]](k))
			os.Exit(0)
		}
		k.attack()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// knowledge is what the attacker knows about the world outside.
type knowledge struct {
	Workspace, Home, Secret string
	Outside                 string // a directory of the user that is not the home
	Socket, Abstract        string
	Run                     string // a directory with sockets of services, as /run has them
	Address                 string // of a TCP server
	Victim, Group           int    // a process of the same user, and its group
	Shared                  sharedObjects
}

// The sockets of services in the directory knowledge.Run.
const dockerSocket, agentSocket, busSocket = "/docker.sock", "/agent", "/bus"

var errHarmless = errors.New("nothing gained")

// attempts return nil if they succeed, which they must not.
var attempts = map[string]func(k knowledge) error{
	"write a file outside":    func(k knowledge) error { return os.WriteFile(k.Outside+"/new", nil, 0o600) },
	"open a file for writing": func(k knowledge) error { return open(k.Secret, os.O_WRONLY) },
	"truncate a file":         func(k knowledge) error { return os.Truncate(k.Secret, 0) },
	"read a file of the home": func(k knowledge) error { return open(k.Secret, os.O_RDONLY) },
	"list the home": func(k knowledge) error {
		entries, err := os.ReadDir(k.Home)
		if err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == filepath.Base(k.Secret) }) {
			return errHarmless
		}
		return err
	},
	"see a file's attributes": func(k knowledge) error { _, err := os.Lstat(k.Secret); return err },
	"chmod":                   func(k knowledge) error { return os.Chmod(k.Secret, 0o644) },
	"symbolic link": func(k knowledge) error {
		_ = os.Symlink(k.Secret, k.Workspace+"/l")
		return open(k.Workspace+"/l", os.O_RDONLY)
	},
	"hard link":         func(k knowledge) error { return os.Link(k.Secret, k.Workspace+"/h") },
	"move a file in":    func(k knowledge) error { return os.Rename(k.Secret, k.Workspace+"/moved") },
	"/proc/PID/root":    func(k knowledge) error { return open(proc(k, "root"+k.Secret), os.O_RDONLY) },
	"/proc/PID/cwd":     func(k knowledge) error { return open(proc(k, "cwd/"+filepath.Base(k.Secret)), os.O_RDONLY) },
	"/proc/PID/mem":     func(k knowledge) error { return open(proc(k, "mem"), os.O_RDWR) },
	"/proc/PID/environ": func(k knowledge) error { return open(proc(k, "environ"), os.O_RDONLY) },
	"/proc/PID/fd":      func(k knowledge) error { return open(proc(k, "fd/0"), os.O_RDONLY) },
	"/proc/PID/cmdline": func(k knowledge) error { return open(proc(k, "cmdline"), os.O_RDONLY) },
	"core_pattern":      func(knowledge) error { return open("/proc/sys/kernel/core_pattern", os.O_WRONLY) },
	"/etc/shadow":       func(knowledge) error { return content("/etc/shadow") },
	"signal":            func(k knowledge) error { return syscall.Kill(k.Victim, 0) },
	"signal by pidfd": func(k knowledge) error {
		fd, err := unix.PidfdOpen(k.Victim, 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, 0, nil, 0)
	},
	"ptrace": func(k knowledge) error { return unix.PtraceAttach(k.Victim) },
	"process_vm_readv": func(k knowledge) error {
		var b [8]byte
		_, err := unix.ProcessVMReadv(k.Victim, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
		return err
	},
	"pidfd_getfd": func(k knowledge) error {
		fd, err := unix.PidfdOpen(k.Victim, 0)
		if err == nil {
			_, err = unix.PidfdGetfd(fd, 0, 0)
		}
		return err
	},
	"named unix socket":    func(k knowledge) error { return dial("unix", k.Socket) },
	"abstract unix socket": func(k knowledge) error { return dial("unix", k.Abstract) },
	"docker.sock":          func(k knowledge) error { return dial("unix", k.Run+dockerSocket) },
	"ssh agent":            func(knowledge) error { return dial("unix", os.Getenv("SSH_AUTH_SOCK")) },
	"D-Bus": func(knowledge) error {
		return dial("unix", strings.TrimPrefix(os.Getenv("DBUS_SESSION_BUS_ADDRESS"), "unix:path="))
	},
	"io_uring":                  raw(unix.SYS_IO_URING_SETUP, 1, 0),
	"unshare a user namespace":  raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0),
	"unshare a mount namespace": raw(unix.SYS_UNSHARE, unix.CLONE_NEWNS, 0),
	"clone with a user namespace": func(knowledge) error {
		c := exec.Command("/bin/true")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return c.Run()
	},
	"clone3": raw(unix.SYS_CLONE3, 0, 0),
	"setns": func(k knowledge) error {
		fd, err := unix.Open(proc(k, "ns/mnt"), unix.O_RDONLY, 0)
		if err != nil {
			fd = 0
		}
		return unix.Setns(fd, 0)
	},
	"mount":  func(k knowledge) error { return unix.Mount("tmpfs", k.Workspace, "tmpfs", 0, "") },
	"umount": func(knowledge) error { return unix.Unmount("/proc", unix.MNT_DETACH) },
	"chroot": func(k knowledge) error { return unix.Chroot(k.Workspace) },
	"a device": func(k knowledge) error {
		return unix.Mknod(k.Workspace+"/dev", unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0)))
	},
	"open_by_handle_at": func(knowledge) error {
		_, err := unix.OpenByHandleAt(unix.AT_FDCWD, unix.NewFileHandle(1, make([]byte, 8)), 0)
		return err
	},
	"bpf":             raw(unix.SYS_BPF, 0, 0),
	"keyctl":          raw(unix.SYS_KEYCTL, 0, 0),
	"perf_event_open": raw(unix.SYS_PERF_EVENT_OPEN, 0, 0),
	"userfaultfd":     raw(unix.SYS_USERFAULTFD, 0, 0),
	"kernel module":   raw(unix.SYS_FINIT_MODULE, 0, 0),
	"reboot":          raw(unix.SYS_REBOOT, 0, 0),
	"x32":             foreign,
	"TIOCSTI":         func(knowledge) error { return unix.IoctlSetInt(0, unix.TIOCSTI, 0) },
	"setuid programs": func(knowledge) error {
		if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on == 1 {
			return errHarmless
		}
		return nil
	},
	"capabilities": func(knowledge) error {
		for c := range uintptr(40) {
			held, _ := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
			if held == 1 && !slices.Contains([]uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SETGID, unix.CAP_SETUID}, c) && os.Geteuid() == 0 {
				return nil
			}
		}
		return errHarmless
	},
	"System V shared memory": func(k knowledge) error {
		if k.Shared.Memory < 0 {
			return errHarmless
		}
		_, err := unix.SysvShmAttach(k.Shared.Memory, 0, 0)
		return err
	},
	"memfd_create and exec": func(k knowledge) error { // allowed, but confined
		fd, err := unix.MemfdCreate("x", 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), "x")
		defer f.Close()
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			return err
		}
		if _, err = io.Copy(f, self); err != nil {
			return err
		}
		out, err := exec.Command("/proc/self/fd/"+strconv.Itoa(fd), "only", "read a file of the home").Output()
		if err == nil && string(out) != "<nil>" {
			return errors.New("started, but: " + string(out))
		}
		return err
	},
	"replace a protected directory": func(k knowledge) error {
		_ = os.Rename(k.Workspace+"/.git", k.Workspace+"/g")
		_ = os.MkdirAll(k.Workspace+"/.git/hooks", 0o700)
		return os.WriteFile(k.Workspace+"/.git/hooks/evil", nil, 0o700)
	},
	"read a hidden path": func(k knowledge) error { return content(k.Workspace + "/hidden") },
	"TCP":                func(k knowledge) error { return dial("tcp", k.Address) },
	"UDP": func(knowledge) error {
		c, err := net.Dial("udp4", "192.0.2.1:53")
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		return err
	},
	"MPTCP": func(k knowledge) error {
		var d net.Dialer
		d.SetMultipathTCP(true)
		c, err := d.Dial("tcp", k.Address)
		if err == nil {
			c.Close()
		}
		return err
	},
	"raw socket":    socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
	"packet socket": socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
	"vsock":         socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
	"AF_ALG":        socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
	"netlink audit": socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
}

func open(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0)
	if err == nil {
		f.Close()
	}
	return err
}

// content is nil if a file can be read and has text.
func content(path string) error {
	text, err := os.ReadFile(path)
	if err == nil && len(text) == 0 {
		return errHarmless
	}
	return err
}

func proc(k knowledge, file string) string { return "/proc/" + strconv.Itoa(k.Victim) + "/" + file }

func dial(network, address string) error {
	c, err := net.Dial(network, address)
	if err == nil {
		c.Close()
	}
	return err
}

func raw(number, a, b uintptr) func(knowledge) error {
	return func(knowledge) error {
		if _, _, errno := unix.RawSyscall(number, a, b, 0); errno != 0 {
			return errno
		}
		return nil
	}
}

func socket(family, kind, protocol int) func(knowledge) error {
	return func(knowledge) error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// foreign makes a system call of x32.
func foreign(knowledge) error {
	if runtime.GOARCH != "amd64" {
		return errHarmless
	}
	_, _, errno := unix.RawSyscall(0x40000000|39, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// inherited is nil if this process began with more than the three descriptors.
func inherited() error {
	for fd := 3; fd < 100; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			return nil
		}
	}
	return errHarmless
}

// attack tries everything and prints the results. It first shows that ordinary work goes on.
func (k knowledge) attack() {
	fmt.Printf("inherited descriptors\t%v\n", inherited())
	for name, f := range map[string]func() error{
		"works: write in the workspace": func() error { return os.WriteFile(k.Workspace+"/own", []byte("x"), 0o600) },
		"works: read the system":        func() error { return content("/etc/passwd") },
		"works: run a program":          func() error { return exec.Command("/bin/sh", "-c", "echo x >/dev/null").Run() },
		"works: a temporary file": func() error {
			f, err := os.CreateTemp("", "x")
			if err == nil {
				f.Close()
			}
			return err
		},
		"works: lower its priority": func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, 19) },
		"works: set its limits":     func() error { return exec.Command("/bin/sh", "-c", "ulimit -n 50").Run() },
		"works: a socket pair": func() error {
			_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			return err
		},
		"works: signal a child": func() error {
			c := exec.Command("/bin/sleep", "100")
			if err := c.Start(); err != nil {
				return err
			}
			err := c.Process.Kill()
			_ = c.Wait()
			return err
		},
	} {
		fmt.Printf("%s\t%v\n", name, f())
	}
	for name, f := range attempts {
		fmt.Printf("%s\t%v\n", name, f(k))
	}
}

// TestEscape lets a program try to leave its isolation, as root and as another user, with namespaces
// and without. Run it with -v for the table.
func TestEscape(t *testing.T) { asUsers(t, attackAll) }

func copySelf(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(dir+"/attacker", text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/attacker"
}

// attackAll attacks with and without namespaces.
func attackAll(t *testing.T, dir string) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, without := range []bool{false, true} {
		name := map[bool]string{false: "namespaces", true: "without namespaces"}[without]
		t.Run(name, func(t *testing.T) {
			isolation.NoNamespaces(without)
			defer isolation.NoNamespaces(false)
			attackOnce(t, filepath.Join(dir, strings.ReplaceAll(name, " ", "-")))
		})
	}
}

func attackOnce(t *testing.T, dir string) {
	k := knowledge{Outside: dir + "/outside", Home: dir + "/home", Workspace: dir + "/home/work", Secret: dir + "/home/secret", Socket: dir + "/home/socket", Abstract: "@trl-escape-" + strconv.Itoa(os.Getpid()), Run: dir + "/run"}
	private := dir + "/private"
	for _, d := range []string{k.Workspace + "/.git/hooks", k.Outside, k.Run, private} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{k.Secret, k.Workspace + "/hidden"} {
		if err := os.WriteFile(f, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	datagrams, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: k.Socket + "-datagrams"})
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	for _, address := range []string{k.Socket, k.Abstract, k.Run + dockerSocket, k.Run + agentSocket, k.Run + busSocket} {
		l, err := net.Listen("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k.Address = l.Addr().String()
	victim := exec.Command("/bin/sleep", "1000")
	victim.Dir, victim.SysProcAttr = k.Home, &syscall.SysProcAttr{Setpgid: true}
	stdin, err := victim.StdinPipe()
	if err == nil {
		err = victim.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		stdin.Close()
		_ = victim.Process.Kill()
		_ = victim.Wait()
	}()
	k.Victim, k.Group = victim.Process.Pid, victim.Process.Pid
	k.Shared = newSharedObjects(t)
	program := copySelf(t, k.Workspace)

	reaper := process.NewReaper()
	defer reaper.Close()
	wanted := api.Isolation{Files: api.FilesWorkspace, Network: api.NetworkNone, Processes: api.ProcessesOwn, Hidden: []string{k.Workspace + "/hidden"}, ReadOnly: []string{k.Workspace + "/.git/hooks"}}
	plan, err := isolation.NewPlan(isolation.Request{
		Isolation: wanted, BestEffort: true, WorkingDir: k.Workspace, Home: k.Home, Private: private, Secrets: []string{k.Secret}, Start: reaper.Start,
	})
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]string{}
	for _, u := range plan.Report.NotEnforced {
		missing[u.Aspect] = u.Reason
		t.Logf("not enforced: %s: %s", u.Aspect, u.Reason)
	}
	text, _ := json.Marshal(k)
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p, err := confine.Start(reaper.Start, process.Spec{
		Path: program, Args: []string{"attacker"}, Dir: k.Workspace, Files: []*os.File{null, theirs, theirs},
		Env: append([]string{envAttack + "=" + string(text), "PATH=/usr/bin:/bin", "HOME=" + k.Home,
			"SSH_AUTH_SOCK=" + k.Run + agentSocket, "DBUS_SESSION_BUS_ADDRESS=unix:path=" + k.Run + busSocket}, plan.Env...),
	}, &confine.Confinement{Isolation: plan.Isolation})
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	report, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	// What an aspect covers that this level does not enforce.
	excused := map[string]string{
		"see a file's attributes": api.AspectAttributes, "chmod": api.AspectAttributes, "/proc/PID/cmdline": api.AspectProcessList,
		"signal": api.AspectSignals, "signal by pidfd": api.AspectSignals,
		"replace a protected directory": api.AspectPaths, "read a hidden path": api.AspectPaths,
	}
	truncates := strings.Contains(missing[api.AspectFiles], "truncated") // before Linux 6.2, without namespaces
	if truncates {
		excused["truncate a file"] = api.AspectFiles
	}
	lines := strings.Split(strings.TrimSpace(string(report)), "\n")
	slices.Sort(lines)
	seen := 0
	for _, line := range lines {
		name, result, _ := strings.Cut(line, "\t")
		seen++
		if rest, ok := strings.CutPrefix(name, "works: "); ok {
			if result != "<nil>" {
				t.Errorf("%s: %s", rest, result)
			}
			continue
		}
		t.Logf("%-32s %s", name, result)
		if result == "<nil>" && missing[excused[name]] == "" {
			t.Errorf("%s: was possible", name)
		}
	}
	if seen != len(attempts)+9 {
		t.Errorf("%d results:\n%s", seen, report)
	}
	if got, err := os.ReadFile(k.Secret); err != nil || string(got) != "secret" && !truncates {
		t.Errorf("the secret is now %q, %v", got, err)
	}
}

// A program that replaces a listed path by a link does not lead the next process out.
func TestLinkInPlaceOfPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, secret := dir+"/work", dir+"/secret"
	for _, d := range []string{work + "/a/b", secret, dir + "/home"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	reaper := process.NewReaper()
	defer reaper.Close()
	for _, without := range []bool{false, true} {
		isolation.NoNamespaces(without)
		plan, err := isolation.NewPlan(isolation.Request{
			Isolation:  api.Isolation{Files: api.FilesWorkspace, Writable: []string{work + "/a/b"}},
			BestEffort: true, WorkingDir: work, Home: dir + "/home", Private: dir + "/private", Start: reaper.Start,
		})
		isolation.NoNamespaces(false)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Rename(work+"/a", work+"/z"), os.Mkdir(work+"/a", 0o700), os.Symlink("../../secret", work+"/a/b")); err != nil {
			t.Fatal(err)
		}
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := confine.Start(reaper.Start, process.Spec{
			Path: "/bin/sh", Args: []string{"sh", "-c", "echo x >" + work + "/a/b/x; echo x >" + secret + "/x"}, Dir: work, Files: []*os.File{null, null, null},
		}, &confine.Confinement{Isolation: plan.Isolation})
		if err == nil {
			<-p.Done()
		}
		null.Close()
		if entries, err := os.ReadDir(secret); err != nil || len(entries) > 0 {
			t.Errorf("without namespaces %v: %v, %v", without, entries, err)
		}
		if err := errors.Join(os.RemoveAll(work+"/a"), os.Rename(work+"/z", work+"/a")); err != nil {
			t.Fatal(err)
		}
	}
}
