package isolation_test

import (
	"maps"
	"os"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	maps.Copy(attempts, map[string]func(k knowledge) error{
		"prlimit": func(k knowledge) error {
			return unix.Prlimit(k.Victim, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
		},
		"sched_setaffinity": func(k knowledge) error {
			var all unix.CPUSet
			if err := unix.SchedGetaffinity(0, &all); err != nil {
				return err
			}
			return unix.SchedSetaffinity(k.Victim, &all)
		},
		"sched_setscheduler": func(k knowledge) error {
			priority := int32(0)
			return call(unix.SYS_SCHED_SETSCHEDULER, uintptr(k.Victim), unix.SCHED_NORMAL, uintptr(unsafe.Pointer(&priority)))
		},
		"sched_setparam": func(k knowledge) error {
			priority := int32(0)
			return call(unix.SYS_SCHED_SETPARAM, uintptr(k.Victim), uintptr(unsafe.Pointer(&priority)), 0)
		},
		"sched_setattr": func(k knowledge) error {
			return unix.SchedSetAttr(k.Victim, &unix.SchedAttr{Size: unix.SizeofSchedAttr}, 0)
		},
		"setpriority":            func(k knowledge) error { return unix.Setpriority(unix.PRIO_PROCESS, k.Victim, 19) },
		"setpriority of a user":  func(knowledge) error { return allowed(unix.Setpriority(unix.PRIO_USER, idleUser, 19)) },
		"setpriority of a group": func(k knowledge) error { return unix.Setpriority(unix.PRIO_PGRP, k.Group, 19) },
		"ioprio_set":             func(k knowledge) error { return call(unix.SYS_IOPRIO_SET, 1, uintptr(k.Victim), 3<<13) },
		"ioprio_set of a user":   func(knowledge) error { return allowed(call(unix.SYS_IOPRIO_SET, 3, idleUser, 3<<13)) },
		"datagram socket pair":   func(k knowledge) error { return datagram(k, unix.SOCK_DGRAM) },
		"raw socket pair":        func(k knowledge) error { return datagram(k, unix.SOCK_RAW) },
		"System V shared memory by number": func(k knowledge) error {
			var d unix.SysvShmDesc
			_, err := unix.SysvShmCtl(k.Shared.Memory, unix.IPC_STAT, &d)
			return err
		},
		"System V semaphores": func(k knowledge) error { return call(unix.SYS_SEMCTL, uintptr(k.Shared.Semaphores), 0, semGetValue) },
		"System V semaphore operation": func(k knowledge) error {
			add := [3]uint16{0, 1, 0} // struct sembuf
			return call(unix.SYS_SEMOP, uintptr(k.Shared.Semaphores), uintptr(unsafe.Pointer(&add)), 1)
		},
		"System V queue": func(k knowledge) error {
			message := [2]int64{1}
			return call(unix.SYS_MSGSND, uintptr(k.Shared.Queue), uintptr(unsafe.Pointer(&message)), 8)
		},
		"POSIX queue": func(k knowledge) error {
			if k.Shared.Named == "" {
				return errHarmless
			}
			return call(unix.SYS_MQ_OPEN, text(k.Shared.Named), unix.O_RDWR, 0)
		},
	})
}

// semGetValue is GETVAL of semctl(2).
const semGetValue = 12

// idleUser is a user without processes, so that an attempt for a user that succeeds does no harm.
const idleUser = otherUser + 1

// allowed is nil if the kernel only found no process of that user.
func allowed(err error) error {
	if err == unix.ESRCH {
		return nil
	}
	return err
}

func call(number, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall6(number, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// text returns the address of a text for the kernel.
func text(s string) uintptr {
	p, _ := unix.BytePtrFromString(s)
	return uintptr(unsafe.Pointer(p))
}

// datagram sends to a socket outside from an end of a pair.
func datagram(k knowledge, kind int) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: k.Socket + "-datagrams"})
}

// sharedObjects are the numbers of objects that all processes of the user share; -1 for none.
type sharedObjects struct {
	Memory, Semaphores, Queue int
	Named                     string // a POSIX queue
}

// newSharedObjects makes what this machine allows.
func newSharedObjects(t *testing.T) sharedObjects {
	get := func(number, a, b, c uintptr) int {
		id, _, errno := unix.Syscall(number, a, b, c)
		if errno != 0 {
			return -1
		}
		return int(id)
	}
	o := sharedObjects{
		Memory:     get(unix.SYS_SHMGET, unix.IPC_PRIVATE, 4096, 0o600|unix.IPC_CREAT),
		Semaphores: get(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, 0o600|unix.IPC_CREAT),
		Queue:      get(unix.SYS_MSGGET, unix.IPC_PRIVATE, 0o600|unix.IPC_CREAT, 0),
	}
	name := "trl-escape-" + strconv.Itoa(os.Getpid())
	if fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, text(name), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600, 0, 0, 0); errno == 0 {
		unix.Close(int(fd))
		o.Named = name
	}
	t.Cleanup(func() {
		_ = call(unix.SYS_SHMCTL, uintptr(o.Memory), unix.IPC_RMID, 0)
		_ = call(unix.SYS_SEMCTL, uintptr(o.Semaphores), 0, unix.IPC_RMID)
		_ = call(unix.SYS_MSGCTL, uintptr(o.Queue), unix.IPC_RMID, 0)
		_ = call(unix.SYS_MQ_UNLINK, text(name), 0, 0)
	})
	return o
}
