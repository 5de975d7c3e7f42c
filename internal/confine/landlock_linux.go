package confine

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// The rights of Landlock, by the version that introduced them.
const (
	fsFile   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE | fsTrunc | fsIoctl
	fsRead   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fsChange = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | fsTrunc
	fsFirst  = 1<<13 - 1 // version 1
	fsRefer  = unix.LANDLOCK_ACCESS_FS_REFER
	fsTrunc  = unix.LANDLOCK_ACCESS_FS_TRUNCATE
	fsIoctl  = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	fsNodes  = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	fsWrite  = fsFirst&^fsNodes | fsRefer | fsTrunc
)

var fsAccess = map[Access]uint64{MayList: unix.LANDLOCK_ACCESS_FS_READ_DIR, MayRead: fsRead, MayWrite: fsWrite, MayChange: fsChange, MayUse: fsChange | fsIoctl}

// handled returns the rights that a version of Landlock knows.
func handled(version int) uint64 {
	rights := uint64(fsFirst)
	if version >= 2 {
		rights |= fsRefer
	}
	if version >= 3 {
		rights |= fsTrunc
	}
	if version >= 5 {
		rights |= fsIoctl
	}
	return rights
}

// ruleNetPort is LANDLOCK_RULE_NET_PORT.
const ruleNetPort = 2

type rulesetAttr struct{ fs, net, scoped uint64 }

// LandlockVersion returns the version of Landlock that the kernel offers; 0 for none.
func LandlockVersion() int {
	v, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// landlock adds the step that enters a domain, with the paths that this thread sees: also without rules for files, processes of the domain cannot
// trace those outside.
func (i *Isolation) landlock(s *steps) (what string, err error) {
	if i.Landlock == 0 {
		return "", nil
	}
	all := handled(i.Landlock)
	attr := rulesetAttr{fs: all}
	rules := i.Files
	if !i.Confined {
		// A right that nothing needs, because a domain must handle one.
		attr.fs, rules = unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK, nil
	}
	size := unsafe.Sizeof(attr.fs)
	if i.ConnectPort > 0 {
		size += unsafe.Sizeof(attr.net)
		attr.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if i.Landlock >= 6 {
		size = unsafe.Sizeof(attr)
		if i.Scoped {
			attr.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		}
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return "landlock", errno
	}
	if fd, err = s.own(int(fd)); err != nil {
		return "landlock", err
	}
	for _, r := range rules {
		if err = addRule(int(fd), r, all); err != nil {
			return r.Path, err
		}
	}
	if i.ConnectPort > 0 {
		port := struct{ rights, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(i.ConnectPort)}
		if _, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, ruleNetPort, uintptr(unsafe.Pointer(&port)), 0, 0, 0); errno != 0 {
			return "landlock", errno
		}
	}
	s.add(process.Call{What: "landlock", Number: unix.SYS_LANDLOCK_RESTRICT_SELF, Args: [5]uintptr{fd}})
	return "", nil
}

func addRule(ruleset int, r Rule, all uint64) error {
	fd, err := openReal(r.Path)
	if err == unix.ENOENT || err == unix.EACCES {
		return nil // a path that does not exist needs no rule
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rights := fsAccess[r.May] & all
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fsFile
	}
	// struct landlock_path_beneath_attr is packed.
	var attr [12]byte
	*(*uint64)(unsafe.Pointer(&attr[0])) = rights
	*(*int32)(unsafe.Pointer(&attr[8])) = int32(fd)
	if _, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr[0])), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
