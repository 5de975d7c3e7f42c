package vm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// initPath is this test program in the machine, where it is the first process.
const initPath = "/init"

// Marks on the console.
const (
	beginMark = "VM-BEGIN "
	endMark   = "VM-END "
	leftMark  = "VM-LEFT "
	failMark  = "VM-FAIL "
	allDone   = "VM-DONE"
)

// user is the user of the machine who is not root.
const user = 1000

// cgroups is where the tree is mounted.
const cgroups = "/sys/fs/cgroup"

// withoutPython are the tests for which the machine would need Python. They need no other kernel.
const withoutPython = "^TestSharedMemory$"

// run is one test program in the machine.
type run struct {
	name  string
	pkg   string
	tests string // for -test.run
	place place
}

func (r run) program() string { return filepath.Base(r.pkg) + ".test" }

// place is where a program runs: as which user, and in which group.
type place struct {
	group string // below the root of the tree
	uid   int
}

var (
	asRoot = place{"", 0}
	// As systemd 254 and later start a unit with Delegate=yes and DelegateSubgroup=trl-daemon.
	delegated = place{"user.slice/trl.service/trl-daemon", user}
	// As earlier ones do: the daemon is in the group that is delegated.
	occupied = place{"user.slice/old.service", user}
	// As in a login without delegation.
	plain = place{"user.slice/session-1.scope", user}
)

const limitsTests = "^(TestMemoryLimit|TestMemoryLimitOfCommand|TestLimitReached|TestUsageOfAll|TestPidsLimit|TestCPULimit)$"

// runs are the programs, in their order. The first ones find the tree as the kernel makes it.
var runs = []run{
	{name: "root/daemon", pkg: "tests/vm", tests: "^TestInsideEnforced$", place: asRoot},
	{name: "root/isolation", pkg: "internal/isolation", tests: "", place: asRoot},
	{name: "delegated/daemon", pkg: "tests/vm", tests: "^TestInsideEnforced$", place: delegated},
	{name: "occupied/daemon", pkg: "tests/vm", tests: "^TestInsideRefused$", place: occupied},
	{name: "plain/daemon", pkg: "tests/vm", tests: "^TestInsideRefused$", place: plain},
	{name: "root/runner", pkg: "internal/runner", tests: limitsTests, place: asRoot},
	{name: "delegated/runner", pkg: "internal/runner", tests: limitsTests, place: delegated},
	{name: "delegated/left", pkg: "tests/soak", tests: "^TestNoCgroupIsLeft$", place: delegated},
	{name: "root/mounts", pkg: "tests/soak", tests: "^TestSessionsWithAnyCgroups$", place: asRoot},
}

// reap is the first process: it adopts orphans, and ends the machine with its child.
func reap() {
	child, err := os.StartProcess(initPath, []string{initPath}, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Env: []string{"PATH=/bin"}})
	for err == nil {
		pid, waitErr := syscall.Wait4(-1, nil, 0, nil)
		if waitErr != nil && waitErr != syscall.EINTR || pid == child.Pid {
			break
		}
	}
	if err != nil {
		fmt.Println(failMark, err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// boot prepares the machine and runs the programs.
func boot() int {
	if err := prepare(); err != nil {
		fmt.Println(failMark, err)
		return 1
	}
	for _, r := range runs {
		fmt.Printf("\n%s%s\n", beginMark, r.name)
		if err := r.start(); err != nil {
			fmt.Printf("\n%s%s\n", failMark, err)
		}
		if left := leftGroups(); len(left) > 0 {
			fmt.Printf("\n%s%s\n", leftMark, left)
		}
		fmt.Printf("\n%s%s\n", endMark, r.name)
	}
	fmt.Println(allDone)
	return 0
}

func prepare() error {
	if err := leaveRootfs(); err != nil {
		return err
	}
	for _, m := range []struct{ kind, at, options string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"devpts", "/dev/pts", "ptmxmode=0666"},
		{"tmpfs", "/dev/shm", "mode=1777"}, {"tmpfs", "/tmp", "mode=1777"}, {"tmpfs", "/var/tmp", "mode=1777"},
		{"cgroup2", cgroups, "nsdelegate"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	_ = os.Symlink("/proc/self/fd", "/dev/fd")
	files := map[string]string{
		"/etc/passwd": "root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n",
		"/etc/group":  "root:x:0:\nuser:x:1000:\n", "/etc/shadow": "root:*:1:0:99999:7:::\n", "/etc/hosts": "127.0.0.1 localhost\n",
	}
	for _, dir := range []string{"/etc", "/root", "/home/user", "/usr"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if out, err := exec.Command("/bin/busybox", "ifconfig", "lo", "127.0.0.1", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("loopback: %w: %s", err, out)
	}
	return errors.Join(os.Chmod("/etc/shadow", 0o600), os.Chown("/home/user", user, user), os.Symlink("/bin", "/usr/bin"))
}

// leaveRootfs puts a mount over the root of the kernel, which no process can replace by another (pivot_root), as
// isolated sessions do.
func leaveRootfs() error {
	const at = "/rootfs"
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/", at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the root: %w", err)
	}
	if err := os.Chdir(at); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	return unix.Chroot(".")
}

// start runs the program in its place.
func (r run) start() error {
	dir := filepath.Join(cgroups, r.place.group)
	if err := r.place.make(); err != nil {
		return err
	}
	group, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer group.Close()
	home := "/root"
	if r.place.uid == user {
		home = "/home/user"
	}
	c := exec.Command("/bin/"+r.program(), "-test.v=test2json", "-test.run="+r.tests, "-test.skip="+withoutPython, "-test.timeout=10m")
	c.Dir, c.Stdout, c.Stderr = home, os.Stdout, os.Stdout
	c.Env = []string{"PATH=/bin", "HOME=" + home, "USER=user", "LANG=C.UTF-8", "TRL_TEST_BIN=/bin/trl", placeVariable + "=" + r.place.group}
	c.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd()),
		Credential: &syscall.Credential{Uid: uint32(r.place.uid), Gid: uint32(r.place.uid)},
	}
	return c.Run()
}

// placeVariable tells a test program the group it runs in.
const placeVariable = "TRL_TEST_VM_PLACE"

// make makes the group as systemd does, and delegates it.
func (p place) make() error {
	if p.group == "" {
		return nil
	}
	dir := cgroups
	parts := strings.Split(p.group, "/")
	for _, part := range parts[:2] { // the slice and the unit
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+cpu +memory +pids"), 0); err != nil {
			return err
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if p == plain {
		return nil
	}
	// As OOMPolicy=kill of a unit does: when the unit itself has no more memory, all of it ends. That of a session
	// still costs one process.
	if err := os.WriteFile(filepath.Join(dir, "memory.oom.group"), []byte("1"), 0); err != nil {
		return err
	}
	delegate := []string{dir}
	if sub := filepath.Join(cgroups, p.group); sub != dir {
		if err := os.Mkdir(sub, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		delegate = append(delegate, sub)
	}
	for _, dir := range delegate {
		for _, file := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(dir, file), p.uid, p.uid); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftGroups lists the groups of sessions that are still there; the last ones may need a moment.
func leftGroups() (left []string) {
	for range 100 {
		left = nil
		_ = filepath.WalkDir(cgroups, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && (d.Name() == "trl-0" || d.Name() == "trl-"+strconv.Itoa(user)) {
				left = append(left, path)
			}
			return nil
		})
		if len(left) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return left
}
