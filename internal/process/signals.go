package process

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// SignalName returns the name of sig with its prefix, such as "SIGTERM"; "SIG" and its number for a
// signal without a name.
func SignalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(sig))
}

// AnySignal returns a signal by its name with or without "SIG", in upper or lower case, or by its
// number.
func AnySignal(name string) (syscall.Signal, bool) {
	if n, err := strconv.Atoi(name); err == nil {
		return syscall.Signal(n), unix.SignalName(syscall.Signal(n)) != ""
	}
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	return sig, sig != 0
}

// ParseSignal returns a signal with which a Ladder may begin, by its name with or without "SIG", in
// upper or lower case, or by its number. TERM, INT, HUP, QUIT, KILL, USR1 and USR2 are allowed,
// because each of them ends a process that does not handle it.
func ParseSignal(name string) (syscall.Signal, bool) {
	switch sig, _ := AnySignal(name); sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGUSR2:
		return sig, true
	}
	return 0, false
}
