package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroup is a directory of the cgroup v2 tree that contains the processes of one session. A
// process in it cannot leave it without the right to write elsewhere in the tree: not by setsid,
// not by a new environment, not by forking faster than it is killed.
//
// A nil Cgroup means that there is no group: its methods do nothing. A Cgroup may be used from any
// goroutine until Close.
type Cgroup struct {
	path string
	fd   int // of the directory; it refers to this one even if another gets its name
}

// DaemonCgroup is the name of the group in which systemd starts the daemon, below the group that it
// delegates: DelegateSubgroup= in systemd.resource-control(5). The groups of sessions are beside it,
// because the kernel limits only groups below a group without processes.
const DaemonCgroup = "trl-daemon"

// removeWithin limits how long Remove waits for the last process to end.
const removeWithin = 2 * time.Second

var errNotCgroup = errors.New("cgroup: there is no writable cgroup v2 tree")

// NewCgroup makes the group trl-<uid>/<name> below the group of this process. It returns an error
// if there is no writable cgroup v2 tree, if the kernel cannot kill a group as a whole (before
// Linux 5.14), or if the name is taken. It changes nothing but these two directories.
func NewCgroup(name string) (*Cgroup, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00\n") {
		return nil, errors.New("cgroup " + strconv.Quote(name) + ": not a valid name")
	}
	if noCgroups() {
		return nil, errNotCgroup
	}
	var err error = errNotCgroup
	for _, own := range OwnCgroups("") {
		if filepath.Base(own) == DaemonCgroup {
			own = filepath.Dir(own)
		}
		c, tryErr := makeCgroup(filepath.Join(own, "trl-"+strconv.Itoa(os.Getuid()), name))
		if tryErr == nil {
			return c, nil
		}
		err = tryErr
	}
	return nil, err
}

func makeCgroup(path string) (*Cgroup, error) {
	parent := filepath.Dir(path)
	// Starting a process in the group needs the right to move processes out of our own group;
	// see "Delegation Containment" in cgroups(7).
	if procs := filepath.Join(filepath.Dir(parent), "cgroup.procs"); unix.Access(procs, unix.W_OK) != nil {
		return nil, errNotCgroup
	}
	var err error
	for range 10 {
		if err = os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		// Between the two calls, the last of the other sessions may remove the parent.
		if err = os.Mkdir(path, 0o755); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	c := OpenCgroup(path)
	if c == nil || !c.usable() {
		c.Close()
		os.Remove(path)
		os.Remove(parent)
		return nil, errors.New("cgroup " + path + ": cannot be killed as a whole, or takes no processes")
	}
	return c, nil
}

// usable reports whether processes can be started in the group and the group can be killed.
// Neither is possible below a threaded group.
func (c *Cgroup) usable() bool {
	kind, err := c.read("cgroup.type")
	return err == nil && strings.TrimSpace(kind) == "domain" &&
		unix.Faccessat(c.fd, "cgroup.kill", unix.W_OK, 0) == nil
}

// OpenCgroup opens a group that NewCgroup has made, perhaps in another process. It returns nil if
// there is no such group. It also returns nil for a directory that NewCgroup cannot have made,
// because the path may come from a file.
func OpenCgroup(path string) *Cgroup {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path ||
		!strings.HasPrefix(filepath.Base(filepath.Dir(path)), "trl-") {
		return nil
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		unix.Close(fd)
		return nil
	}
	return &Cgroup{path: path, fd: fd}
}

// Sub makes a group below c, for some of its processes. It returns nil if that is not possible.
func (c *Cgroup) Sub(name string) *Cgroup {
	if c == nil {
		return nil
	}
	sub := &Cgroup{path: filepath.Join(c.path, name)}
	err := unix.Mkdirat(c.fd, name, 0o755)
	if err == nil {
		sub.fd, err = unix.Openat(c.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil
	}
	return sub
}

// SubOf returns the name of the group directly below c in which a process is; empty for none.
func (c *Cgroup) SubOf(pid int) string {
	if c == nil {
		return ""
	}
	var buf [4096]byte
	n, err := readFile(procPath(pid, "cgroup"), buf[:])
	if err != nil {
		return ""
	}
	return subGroup(buf[:n], filepath.Base(c.path))
}

// subGroup returns the name of the group directly below the one with a name, from the text of
// /proc/PID/cgroup; empty for none.
func subGroup(text []byte, name string) string {
	for line := range bytes.Lines(text) {
		if path, ok := bytes.CutPrefix(bytes.TrimRight(line, "\n"), []byte("0::")); ok {
			_, sub, _ := bytes.Cut(path, []byte("/"+name+"/"))
			sub, _, _ = bytes.Cut(sub, []byte("/"))
			return string(sub)
		}
	}
	return ""
}

// RemoveEmpty removes the group if no process is in it, and reports whether it did.
func (c *Cgroup) RemoveEmpty() bool { return c == nil || c.rmdir() == nil }

// Path returns the directory of the group.
func (c *Cgroup) Path() string {
	if c == nil {
		return ""
	}
	return c.path
}

// FD returns the descriptor of the directory, for Spec.CgroupFD; 0 for no group. On a kernel, or
// with a system call filter, that does not know clone3, Start fails with it; the caller then
// starts the process without it.
func (c *Cgroup) FD() int {
	if c == nil {
		return 0
	}
	return c.fd
}

// Kill sends SIGKILL to all processes in the group and in the groups below it, including those
// that are being forked. It does not wait. A group that no longer exists is not an error.
func (c *Cgroup) Kill() error {
	if c == nil {
		return errNotCgroup
	}
	fd, err := unix.Openat(c.fd, "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte("1"))
		unix.Close(fd)
	}
	if err == nil || err == unix.ENOENT || err == unix.ENODEV {
		return nil
	}
	return &os.PathError{Op: "kill cgroup", Path: c.path, Err: err}
}

// KillAll is Kill, and returns the processes that were in the group.
func (c *Cgroup) KillAll() []Killed {
	var killed []Killed
	for _, pid := range c.Procs() {
		if pid != os.Getpid() {
			killed = append(killed, Killed{PID: pid, Command: CommandLine(pid), Signal: unix.SIGKILL})
		}
	}
	if len(killed) > 0 {
		_ = c.Kill()
	}
	return killed
}

// Procs lists the processes in the group and the groups below it.
func (c *Cgroup) Procs() []int {
	if c == nil {
		return nil
	}
	var pids []int
	for _, dir := range append(c.below(), c.path) {
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for line := range bytes.Lines(text) {
			// The kernel writes 0 for a process of another pid namespace.
			if pid, ok := parseUint(bytes.TrimSpace(line)); ok && pid > 0 {
				pids = append(pids, int(pid))
			}
		}
	}
	return pids
}

// Remove waits up to two seconds until the last process in the group has ended, and removes the
// group. It also removes the directory above it if that is empty then. A group that no longer
// exists is not an error.
func (c *Cgroup) Remove() error {
	if c == nil {
		return nil
	}
	deadline := time.Now().Add(removeWithin)
	for {
		if !c.waitEmpty(deadline) {
			return errors.New("remove cgroup " + c.path + ": it still has processes")
		}
		err := c.rmdir()
		if err == nil {
			break
		}
		// Busy means that a process has entered the group since waitEmpty, or is just leaving
		// it. The kernel reports neither, so the removal is tried again.
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	os.Remove(filepath.Dir(c.path)) // fails while other sessions have groups there
	return nil
}

func (c *Cgroup) rmdir() error {
	for _, dir := range append(c.below(), c.path) {
		if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
			return &os.PathError{Op: "remove cgroup", Path: dir, Err: err}
		}
	}
	return nil
}

// Close closes the descriptor. The group remains.
func (c *Cgroup) Close() {
	if c != nil && c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
	}
}

// waitEmpty waits until there is no process in the group or in the groups below it, and reports
// whether that happened in time. The kernel raises POLLPRI on cgroup.events when it changes.
func (c *Cgroup) waitEmpty(deadline time.Time) bool {
	fd, err := unix.Openat(c.fd, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err == unix.ENOENT || err == unix.ENODEV
	}
	defer unix.Close(fd)
	var buf [256]byte
	for {
		n, err := unix.Pread(fd, buf[:], 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err == unix.ENODEV
		case bytes.Contains(buf[:n], []byte("populated 0")):
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
		if _, err := unix.Poll(poll, int(left/time.Millisecond)+1); err != nil && err != unix.EINTR {
			return false
		}
	}
}

// below returns the groups that processes of the session have made below theirs, the deepest
// first, so that they can be removed in this order.
func (c *Cgroup) below() []string {
	var dirs []string
	var visit func(dir string)
	visit = func(dir string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() {
				sub := filepath.Join(dir, e.Name())
				visit(sub)
				dirs = append(dirs, sub)
			}
		}
	}
	visit(c.path)
	return dirs
}

func (c *Cgroup) read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(c.path, name))
	return string(text), err
}

// OwnCgroups returns the directories of this process's group in the v2 tree, or in the tree of a
// controller of cgroup v1. It returns none where cgroups are not to be used.
func OwnCgroups(controller string) []string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || noCgroups() {
		return nil
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return ownGroups(mounts, groups, controller)
}

// ownGroups returns the directories of this process's group in one tree, from the texts of
// /proc/self/mountinfo and /proc/self/cgroup: the v2 tree if the controller is empty. There is one
// for each mount of the tree, alone or beside others ("hybrid"), in which the group is visible.
func ownGroups(mounts, groups []byte, controller string) []string {
	own := ""
	for line := range bytes.Lines(groups) {
		// 4:cpu,cpuacct:/user.slice or 0::/user.slice
		_, rest, _ := strings.Cut(strings.TrimRight(string(line), "\n"), ":")
		if names, path, ok := strings.Cut(rest, ":"); ok && slices.Contains(strings.Split(names, ","), controller) {
			own = path
		}
	}
	// A path that begins with /.. is outside our cgroup namespace.
	if own == "" || own == "/.." || strings.HasPrefix(own, "/../") {
		return nil
	}
	var dirs []string
	for line := range bytes.Lines(mounts) {
		// 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
		fields, after, ok := strings.Cut(string(line), " - ")
		f := strings.Fields(fields)
		if !ok || len(f) < 6 || !isTree(strings.Fields(after), controller) {
			continue
		}
		root, point := unescapeMount(f[3]), unescapeMount(f[4])
		if rel, ok := strings.CutPrefix(own, strings.TrimSuffix(root, "/")); ok && (rel == "" || rel[0] == '/') {
			dirs = append(dirs, filepath.Join(point, rel))
		}
	}
	return dirs
}

// isTree reports whether the type, source and options of a mount are those of a cgroup tree.
func isTree(mount []string, controller string) bool {
	if controller == "" {
		return len(mount) > 0 && mount[0] == "cgroup2"
	}
	return len(mount) > 2 && mount[0] == "cgroup" && slices.Contains(strings.Split(mount[2], ","), controller)
}

// unescapeMount decodes the octal escapes of mountinfo, such as \040.
func unescapeMount(s string) string {
	var text strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				text.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		text.WriteByte(s[i])
	}
	return text.String()
}
