// Package early runs `trl run -s NAME COMMAND...` while the program is still starting.
//
// Go initialises every package of a program before main, and those of the daemon take longer than a
// short command does. Packages are initialised in the order of their import paths, each after its
// imports (Go specification, "Program initialization"). This package imports only what is ready soon,
// so its init runs before most of the others: before net, gRPC and the client of Docker. tests/repo
// keeps its imports light.
//
// If the command line has the plain form, init finds the daemon, starts the command, prints its
// output, and exits with its status. It does so only while everything is as usual. At anything else
// it returns, and the program starts as ever:
//
//   - Before the command is sent, nothing has happened, and the usual path begins anew.
//   - Afterwards the command may run, and it must run only once. Take returns the connection, every
//     byte that came on it, and how much of the output is printed. The usual path continues there.
//
// So this package reports no errors and handles no signals: the usual path does.
package early

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

// Handover is what the usual path continues with.
type Handover struct {
	// Stream is a command that init has started and not seen to its end; nil if it started none.
	Stream *wire.Begun
	// Session is the session of the command; only the fields about its shell are set.
	Session api.SessionInfo
	// Signals is the channel of Catch, which init called before it sent the command.
	Signals chan os.Signal
}

var handover *Handover // set by init

// Take returns what init has begun, once; nil if that is nothing.
func Take() *Handover {
	h := handover
	handover = nil
	return h
}

// EndSignals are the signals that end a command. Without a handler, Go answers SIGQUIT, which Ctrl-\
// sends, with the stacks of all goroutines.
var EndSignals = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}

// Catch returns a channel that gets the signals that end a program, from now on. A program that dies
// by one looks different to its caller than one that exits with the status for it.
func Catch() chan os.Signal {
	signals := make(chan os.Signal, 4)
	for _, s := range EndSignals {
		if !signal.Ignored(s) { // ignored by nohup or a script: not meant for us
			signal.Notify(signals, s)
		}
	}
	return signals
}
