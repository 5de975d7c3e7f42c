package process

import "golang.org/x/sys/unix"

// inputCalls are the system calls that can wait for input.
var inputCalls = map[uint64]inputCall{
	unix.SYS_READ: {callRead, noLimit}, unix.SYS_READV: {callRead, noLimit}, unix.SYS_PREAD64: {callRead, noLimit}, unix.SYS_PREADV: {callRead, noLimit}, unix.SYS_PREADV2: {callRead, noLimit},
	unix.SYS_SPLICE: {callRead, noLimit}, unix.SYS_TEE: {callRead, noLimit},
	unix.SYS_POLL: {callPoll, millis}, unix.SYS_PPOLL: {callPoll, spec},
	unix.SYS_SELECT: {callSelect, micros}, unix.SYS_PSELECT6: {callSelect, spec},
	unix.SYS_EPOLL_WAIT: {callEpoll, millis}, unix.SYS_EPOLL_PWAIT: {callEpoll, millis}, unix.SYS_EPOLL_PWAIT2: {callEpoll, spec},
}
