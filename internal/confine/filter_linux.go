package confine

import (
	"slices"

	"golang.org/x/sys/unix"
)

// The kernel refuses these system calls with EPERM, with any arguments: they trace processes,
// change mounts and namespaces, load code into the kernel, or reach what the rules for files do not
// see.
var refused = append([]uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, sysOpenTreeAttr, unix.SYS_CHROOT, unix.SYS_SETNS,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
	unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
}, refusedHere...)

const sysOpenTreeAttr = 467

// ipc are the calls of System V IPC and of POSIX message queues. With the number of an object, a process
// needs no call that opens it.
var ipc = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}

// ofProcess are the calls that limit a process or change its priority, with where its number is among
// the arguments. A limit of processor time ends a process like a signal.
var ofProcess = map[uint32]uint32{
	unix.SYS_PRLIMIT64: offArg0, unix.SYS_SCHED_SETAFFINITY: offArg0, unix.SYS_SCHED_SETSCHEDULER: offArg0, unix.SYS_SCHED_SETPARAM: offArg0,
	unix.SYS_SCHED_SETATTR: offArg0, unix.SYS_SETPRIORITY: offArg1, unix.SYS_IOPRIO_SET: offArg1,
}

// oneProcess are those of them that are also for a group or a user, with the first argument that means a
// process.
var oneProcess = map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_PROCESS, unix.SYS_IOPRIO_SET: 1}

// newNamespaces are the flags of clone(2) that make namespaces; newTime is only one of unshare(2).
const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	newTime       = unix.CLONE_NEWTIME
)

// Offsets in struct seccomp_data. The low half of an argument comes first on both architectures.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg1   = 24
	offArg2   = 32
	offArg3   = 40
)

// assembler puts a filter together. Each statement ends the filter with a decision or falls through.
type assembler []unix.SockFilter

func (a *assembler) add(code uint16, k uint32, jt, jf int) {
	*a = append(*a, unix.SockFilter{Code: code, K: k, Jt: uint8(jt), Jf: uint8(jf)})
}

func (a *assembler) load(offset uint32) { a.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }

func (a *assembler) fail(errno uint32) {
	a.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|errno, 0, 0)
}

func (a *assembler) allow() { a.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0) }

// only begins the statements for one system call, which rest adds; all others jump over them. After
// them the number of the call must be loaded again, so rest must end with a decision.
func (a *assembler) only(number uint32, rest func(*assembler)) {
	var inner assembler
	rest(&inner)
	a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, number, 0, len(inner))
	*a = append(*a, inner...)
}

// filter returns the filter of system calls.
func (i *Isolation) filter() []unix.SockFilter {
	var a assembler
	a.load(offArch)
	a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, auditArch, 1, 0)
	a.fail(uint32(unix.EPERM)) // system calls of another architecture have other numbers
	a.load(offNumber)
	if foreignBit != 0 {
		a.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, foreignBit, 0, 1)
		a.fail(uint32(unix.ENOSYS))
	}
	list := refused
	if i.NoIPC {
		list = append(list[:len(list):len(list)], ipc...)
	}
	for _, number := range list {
		a.only(number, func(a *assembler) { a.fail(uint32(unix.EPERM)) })
	}
	// Its flags are in memory, which a filter cannot read; libraries use clone instead.
	a.only(unix.SYS_CLONE3, func(a *assembler) { a.fail(uint32(unix.ENOSYS)) })
	for number, flags := range map[uint32]uint32{unix.SYS_CLONE: newNamespaces, unix.SYS_UNSHARE: newNamespaces | newTime} {
		a.only(number, func(a *assembler) {
			a.load(offArg0)
			a.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, flags, 0, 1)
			a.fail(uint32(unix.EPERM))
			a.allow()
		})
	}
	a.only(unix.SYS_IOCTL, func(a *assembler) {
		a.load(offArg1)
		for _, request := range []uint32{unix.TIOCSTI, tioclinux} { // type into the terminal
			a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, request, 0, 1)
			a.fail(uint32(unix.EPERM))
		}
		a.allow()
	})
	a.only(unix.SYS_PERSONALITY, func(a *assembler) {
		a.load(offArg0)
		for _, p := range []uint32{0, 0x8, 0x20000, 0x20008, 0xffffffff} { // as Docker allows
			a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, p, 0, 1)
			a.allow()
		}
		a.fail(uint32(unix.EPERM))
	})
	if i.OwnProcesses {
		for number, process := range ofProcess {
			a.only(number, func(a *assembler) {
				if which, ok := oneProcess[number]; ok {
					a.load(offArg0)
					a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, which, 1, 0)
					a.fail(uint32(unix.EPERM))
				}
				a.load(process)
				a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 0, 1) // 0 is the caller; a filter knows no other
				a.allow()
				a.fail(uint32(unix.EPERM))
			})
		}
	}
	if i.ConnectPort > 0 {
		// With this flag a message connects its socket, and Landlock does not see that.
		for number, flags := range map[uint32]uint32{unix.SYS_SENDTO: offArg3, unix.SYS_SENDMSG: offArg2, unix.SYS_SENDMMSG: offArg3} {
			a.only(number, func(a *assembler) {
				a.load(flags)
				a.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, unix.MSG_FASTOPEN, 0, 1)
				a.fail(uint32(unix.EPERM))
				a.allow()
			})
		}
	}
	a.only(unix.SYS_SOCKETPAIR, func(a *assembler) {
		a.load(offArg0)
		a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.AF_UNIX, 1, 0)
		a.fail(uint32(unix.EPERM))
		if !slices.Contains(i.Families, unix.AF_UNIX) { // an end of a pair of datagram sockets can send anywhere
			a.load(offArg1)
			a.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0) // without the flags
			a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.SOCK_STREAM, 2, 0)
			a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.SOCK_SEQPACKET, 1, 0)
			a.fail(uint32(unix.EPERM))
		}
		a.allow()
	})
	a.only(unix.SYS_SOCKET, func(a *assembler) {
		a.load(offArg0)
		for _, family := range i.Families {
			if family == unix.AF_NETLINK { // only to read addresses and routes, as getaddrinfo does
				a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(family), 0, 4)
				a.load(offArg2)
				a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.NETLINK_ROUTE, 0, 1)
				a.allow()
				a.fail(uint32(unix.EPERM))
				continue
			}
			if i.ConnectPort > 0 && family != unix.AF_UNIX { // only TCP, and not its multipath form
				a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(family), 0, 8)
				a.load(offArg1)
				a.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0) // without the flags
				a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.SOCK_STREAM, 0, 4)
				a.load(offArg2)
				a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, 0)
				a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.IPPROTO_TCP, 0, 1)
				a.allow()
				a.fail(uint32(unix.EPERM))
				continue
			}
			a.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(family), 0, 1)
			a.allow()
		}
		a.fail(uint32(unix.EPERM))
	})
	a.allow()
	return a
}

const proxyPort = 3128 // of ProxyAddress

const tioclinux = 0x541c
