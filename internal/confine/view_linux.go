package confine

import (
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// view is the tree of a process while it is made: at /new, out of the old tree, which is at /old. Other
// processes of the session run meanwhile and can write some of its directories. So no path in it is
// looked up twice and no link is followed: every step begins at a descriptor, and a mount is complete
// before it goes to its place.
type view struct {
	tty    string         // the terminal of this process, if it has one
	mounts map[string]int // the mounted trees, by path
	own    []int          // mounts that become read-only at the end
}

// enterView replaces the tree that this process sees, as bubblewrap does it: the old tree moves below
// a new, empty one, its parts are mounted where they belong, and then the old tree goes.
func (i *Isolation) enterView() (what string, err error) {
	const base = "/usr" // any directory: a tree mounted there is moved away at once
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
	root, err := openReal("/new")
	if err != nil {
		return "mount /new", err
	}
	v := view{mounts: map[string]int{"/": root}, own: []int{root}}
	if name, err := os.Readlink("/old/proc/self/fd/0"); err == nil && strings.HasPrefix(name, "/dev/pts/") {
		v.tty = name
	}
	if err = unix.Mknod("/empty", unix.S_IFREG, 0); err != nil {
		return "empty file", err
	}
	for _, m := range i.View {
		if err = v.add(m); err != nil {
			return m.Path, err
		}
	}
	// Now that every mount has its place, nothing more is made in the directories that are ours.
	for _, fd := range v.own {
		if err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return "read-only mount", err
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

// add makes one path of the tree.
func (v *view) add(m Mount) error {
	switch m.Kind {
	case MountLink:
		return v.link(m)
	case MountProc:
		// Only processes that this one may trace are listed. Landlock says which these are.
		proc, err := filesystem("proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY, "hidepid", "ptraceable")
		if err != nil {
			return v.bind("/proc", m.Path, unix.MOUNT_ATTR_RDONLY)
		}
		return v.put(proc, m.Path, unix.S_IFDIR)
	case MountDev:
		return v.dev(m.Path)
	case MountHidden:
		return v.hide(m)
	case MountPinned:
		return v.pin(m.Path)
	case MountWhole:
		return v.bind(m.from(), m.Path, 0)
	case MountRead:
		return v.bind(m.from(), m.Path, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID)
	}
	return v.bind(m.from(), m.Path, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

func (m Mount) from() string {
	if m.From == "" {
		return m.Path
	}
	return m.From
}

// openReal opens a path that has no symbolic links. All paths of an Isolation are real when it is
// made; a link that appears later is one with which the session tries to get out.
func openReal(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// place opens a path of the tree, from the mount that contains it, without following links. It makes
// the directories that are missing, and a file of the type last; with 0, a missing path is an error.
func (v *view) place(name string, last uint32) (int, error) {
	from := name
	for from != "/" {
		if _, ok := v.mounts[from]; ok {
			break
		}
		from = path.Dir(from)
	}
	at, err := unix.FcntlInt(uintptr(v.mounts[from]), unix.F_DUPFD_CLOEXEC, 3)
	rest := strings.FieldsFunc(name[len(from):], func(r rune) bool { return r == '/' })
	for i, step := range rest {
		if err != nil {
			break
		}
		kind := last
		if i < len(rest)-1 && last != 0 {
			kind = unix.S_IFDIR
		}
		dir := at
		at, err = open(dir, step, kind)
		unix.Close(dir)
	}
	return at, err
}

// open opens one name in a directory, and makes it if it is missing.
func open(dir int, name string, kind uint32) (fd int, err error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH}
	if fd, err = unix.Openat2(dir, name, how); err != unix.ENOENT || kind == 0 {
		return fd, err
	}
	if kind == unix.S_IFDIR {
		err = unix.Mkdirat(dir, name, 0o755)
	} else {
		err = unix.Mknodat(dir, name, unix.S_IFREG|0o644, 0)
	}
	if err != nil && err != unix.EEXIST {
		return -1, err
	}
	return unix.Openat2(dir, name, how)
}

// put mounts a tree that has no place yet.
func (v *view) put(tree int, name string, kind uint32) error {
	at, err := v.place(name, kind)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return v.attach(tree, name, at)
}

func (v *view) attach(tree int, name string, at int) error {
	v.mounts[name] = tree
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// clone copies the mounts at a descriptor, without a place yet.
func clone(fd int) (int, error) {
	return unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
}

// bind mounts a file or directory of the old tree, and makes the place for it.
func (v *view) bind(from, at string, attributes uint64) error {
	fd, err := openReal("/old" + from)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		return err
	}
	tree, err := clone(fd)
	if err == nil && attributes != 0 {
		err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	}
	if err != nil {
		return err
	}
	return v.put(tree, at, st.Mode&unix.S_IFMT)
}

// pin mounts a directory on itself: the kernel renames no directory on which something is mounted.
func (v *view) pin(name string) error {
	at, err := v.place(name, unix.S_IFDIR)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	tree, err := clone(at)
	if err != nil {
		return err
	}
	return v.attach(tree, name, at)
}

// hide puts an empty directory or file in the place of a path.
func (v *view) hide(m Mount) error {
	if m.DirInode != 0 {
		if err := v.check(path.Dir(m.Path), m.DirInode); err != nil {
			return err
		}
	}
	at, err := v.place(m.Path, 0)
	if err == unix.ENOENT && m.Optional {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err = unix.Fstat(at, &st); err != nil {
		return err
	}
	if m.Inode != 0 && m.Inode != st.Ino {
		return unix.ESTALE
	}
	var tree int
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		tree, err = filesystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, "mode", "0755", "size", "64k")
		v.own = append(v.own, tree)
	} else {
		var empty int
		if empty, err = openReal("/empty"); err == nil {
			tree, err = clone(empty)
			unix.Close(empty)
		}
	}
	if err != nil {
		return err
	}
	return v.attach(tree, m.Path, at)
}

// check returns an error if a directory of the tree is not the one with this number.
func (v *view) check(name string, inode uint64) error {
	at, err := v.place(name, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err = unix.Fstat(at, &st); err == nil && st.Ino != inode {
		err = unix.ESTALE
	}
	return err
}

// link makes a symbolic link. Where the path is there already, or leads through another link, the link
// is not needed, or the session has put its own there.
func (v *view) link(m Mount) error {
	dir, err := v.place(path.Dir(m.Path), unix.S_IFDIR)
	if err == nil {
		err = unix.Symlinkat(m.From, dir, path.Base(m.Path))
		unix.Close(dir)
	}
	if err == unix.EEXIST || err == unix.ELOOP || err == unix.ENOTDIR {
		return nil
	}
	return err
}

// filesystem makes a file system that has no place yet. The options are names, each with its value.
func filesystem(kind string, attributes int, options ...string) (int, error) {
	fd, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	for i := 0; i < len(options); i += 2 {
		if err = unix.FsconfigSetString(fd, options[i], options[i+1]); err != nil {
			return -1, err
		}
	}
	if err = unix.FsconfigCreate(fd); err != nil {
		return -1, err
	}
	return unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, attributes)
}

// dev makes a /dev with the usual devices. Its terminals are its own: those of the user's other
// programs are not there.
func (v *view) dev(at string) error {
	for _, f := range []struct {
		kind, path string
		attributes int
		options    []string
	}{
		{"tmpfs", at, unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC, []string{"mode", "0755", "size", "1m"}},
		{"tmpfs", at + "/shm", unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, []string{"mode", "1777"}},
		{"devpts", at + "/pts", unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC, []string{"ptmxmode", "0666", "mode", "0620"}},
	} {
		tree, err := filesystem(f.kind, f.attributes, f.options...)
		if err == nil {
			err = v.put(tree, f.path, unix.S_IFDIR)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"/null", "/zero", "/full", "/random", "/urandom", "/tty"} {
		if err := v.bind("/dev"+name, at+name, 0); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"/fd": "/proc/self/fd", "/stdin": "/proc/self/fd/0", "/stdout": "/proc/self/fd/1", "/stderr": "/proc/self/fd/2", "/ptmx": "pts/ptmx"} {
		if err := v.link(Mount{Path: at + name, From: to}); err != nil {
			return err
		}
	}
	if v.tty != "" {
		return v.bind(v.tty, at+"/console", 0) // where programs find the name of their terminal
	}
	return nil
}
