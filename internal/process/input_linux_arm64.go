package process

import "golang.org/x/sys/unix"

// inputCalls are the system calls that can wait for input.
var inputCalls = map[uint64]int{
	unix.SYS_READ: callRead, unix.SYS_READV: callRead, unix.SYS_PREAD64: callRead, unix.SYS_PREADV: callRead, unix.SYS_PREADV2: callRead,
	unix.SYS_SPLICE: callRead, unix.SYS_TEE: callRead,
	unix.SYS_PPOLL: callPoll, unix.SYS_PSELECT6: callSelect,
	unix.SYS_EPOLL_PWAIT: callEpoll, unix.SYS_EPOLL_PWAIT2: callEpoll,
}
