package process

var (
	// ParseStat reads a line of /proc/PID/stat.
	ParseStat = parseStat
	// OwnGroups finds the cgroup directories of a process.
	OwnGroups = ownGroups
	// SubGroup finds the group below another one in the text of /proc/PID/cgroup.
	SubGroup = subGroup
)

// WithoutChildrenFiles makes the package behave as on a kernel that has no lists of
// children, until the returned function is called.
func WithoutChildrenFiles() (restore func()) {
	before := hasChildrenFiles
	hasChildrenFiles = func() bool { return false }
	return func() { hasChildrenFiles = before }
}

// WithoutPidfd makes the package behave as on a kernel that has no pidfds.
func WithoutPidfd() (restore func()) {
	before := pidfdWorks
	pidfdWorks = func() bool { return false }
	return func() { pidfdWorks = before }
}

var (
	// ParseSyscall reads /proc/PID/task/TID/syscall.
	ParseSyscall = func(line []byte) (number uint64, args [6]uint64, ok bool) {
		c, ok := parseSyscall(line)
		return c.number, c.args, ok
	}
	// ParseEpoll reads /proc/PID/fdinfo/FD of an epoll descriptor.
	ParseEpoll = parseEpoll
	// Polled and Selected read the arguments of poll and select.
	Polled, Selected = polled, selected
	// ParseTerminal reads a line of /proc/PID/stat.
	ParseTerminal = parseTerminal
)
