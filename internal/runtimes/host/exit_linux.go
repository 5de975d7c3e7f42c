package host

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// waitExit waits until a process that this process did not start has ended; it returns false if ctx
// ends first. It needs no thread: a pidfd becomes readable when its process ends.
func waitExit(ctx context.Context, info process.Info) bool {
	fd, err := unix.PidfdOpen(info.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return pollExit(ctx, info)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	// If the start time still matches, the descriptor is that of the right process.
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
