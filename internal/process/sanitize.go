package process

import (
	"os"
	"os/signal"
	"syscall"
)

// Sanitize prepares a long-lived process that starts others. Call it once, first
// thing in main.
//
// Every descriptor from 3 up gets close-on-exec: it stays usable here, but no
// child inherits what this process happened to inherit.
//
// SIGHUP and SIGINT, when they were ignored at the start (nohup; `&` in a script),
// stay without effect here but come to children with their default action. An
// ignored signal would be inherited, and a shell can neither trap nor reset one
// that was ignored when it started. After Sanitize signal.Ignored no longer tells
// that they were. So do the signals that the C library keeps for itself, which it
// ignores in whatever it starts with posix_spawn.
func Sanitize() {
	closeOnExecFrom3()
	resetLibrarySignals()
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			// Caught and dropped: exec turns a caught signal into the default.
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
