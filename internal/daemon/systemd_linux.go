package daemon

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// selfPath is the program that runs, even when its file was removed.
const selfPath = "/proc/self/exe"

// firstActivated is the first descriptor that systemd passes; see sd_listen_fds(3).
const firstActivated = 3

// fromManager takes the sockets of a service manager: LISTEN_FDS of them, if LISTEN_PID is this
// process. It removes the variables, so that no child takes them for its own.
func fromManager() (in inherited, err error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(name)
	}
	if count == "" || pid != strconv.Itoa(os.Getpid()) {
		return in, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return in, fmt.Errorf("LISTEN_FDS: %q: not a number", count)
	}
	for fd := firstActivated; fd < firstActivated+n; fd++ {
		unix.CloseOnExec(fd)
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		switch {
		case err != nil:
			return in, fmt.Errorf("LISTEN_FDS: descriptor %d: %w", fd, err)
		case domain == unix.AF_UNIX && in.socket.Socket == 0:
			in.socket.Socket = fd
		default:
			return in, fmt.Errorf("LISTEN_FDS: descriptor %d: must be a unix socket, and the only one", fd)
		}
	}
	return in, nil
}

// notify reports the state of the daemon to the service manager at path, if there is one; see
// sd_notify(3).
func notify(path, state string) {
	if path == "" {
		return
	}
	if path[0] == '@' {
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(state))
}
