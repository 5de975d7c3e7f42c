package process

import (
	"os"
	"os/signal"
	"syscall"
)

// Sanitize prepares a long-lived process that starts others. Call it once, at the start of main.
//
// It sets close-on-exec on every descriptor from 3 up, so that children do not inherit descriptors
// that this process happened to inherit.
//
// SIGHUP and SIGINT, if they were ignored at the start (nohup; `&` in a script), stay without
// effect in this process, but children get their default actions. Children would inherit an
// ignored signal, and a shell can neither trap nor reset a signal that was ignored when it
// started. After Sanitize, signal.Ignored no longer reports them. The signals that the C library
// reserves for itself, and ignores in the children of posix_spawn, also get their default actions.
func Sanitize() {
	closeOnExecFrom3()
	resetLibrarySignals()
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			// The signal is caught and dropped, because exec resets a caught signal to its
			// default action.
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
