package process

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// SignalName is the name of sig with its prefix, as in "SIGTERM". A signal
// without a name gives "SIG" and its number.
func SignalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(sig))
}

// ParseSignal finds a signal that a ladder may begin with by "TERM", "SIGTERM" or
// its number, in upper or lower case. There are TERM, INT, HUP, QUIT, KILL, USR1
// and USR2: each of them ends a process that does nothing about it.
func ParseSignal(name string) (syscall.Signal, bool) {
	if n, err := strconv.Atoi(name); err == nil {
		name = SignalName(syscall.Signal(n))
	}
	switch strings.TrimPrefix(strings.ToUpper(name), "SIG") {
	case "TERM":
		return syscall.SIGTERM, true
	case "INT":
		return syscall.SIGINT, true
	case "HUP":
		return syscall.SIGHUP, true
	case "QUIT":
		return syscall.SIGQUIT, true
	case "KILL":
		return syscall.SIGKILL, true
	case "USR1":
		return syscall.SIGUSR1, true
	case "USR2":
		return syscall.SIGUSR2, true
	}
	return 0, false
}
