package host

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// waitExit waits until a process that is not our child has ended; false when ctx
// ends first. It costs no thread: a pidfd becomes readable when its process ends.
func waitExit(ctx context.Context, info process.Info) bool {
	fd, err := unix.PidfdOpen(info.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return pollExit(ctx, info)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	// If the start time still fits, it is the right process that the descriptor holds.
	if now, ok := process.Stat(info.PID); !ok || now.StartTime != info.StartTime {
		return true
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return pollExit(ctx, info)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n == 1
	})
	return err == nil || pollExit(ctx, info)
}
