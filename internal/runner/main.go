package runner

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/version"
)

// Name is argv[0] of a runner process.
const Name = "trl-runner"

// listenerFD is where a runner finds its listening socket.
const listenerFD = 3

// spareThreads is how many threads a runner has beside the main thread, those of the Go
// runtime and that of the signals. It needs one to run Go code and one for each blocking
// system call: the poll of the shell, the poll of the Drainer, the wait for a process, a file,
// /proc. Pipes, sockets and terminals share one poller.
const spareThreads = 5

func init() {
	// The kernel lists the children of a process by thread and gives orphans to the main
	// thread. Forking on the main thread keeps all children in one list. Only init can pin
	// the main goroutine to it.
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == Name {
		runtime.LockOSThread()
		runtime.MemProfileRate = 0 // the profile is never read, and it takes memory
	}
}

// Main is the runner program. The main goroutine must call it. It returns only if the runner
// cannot start; a running runner ends by os.Exit.
func Main() int {
	id, dir := os.Getenv(api.SessionMarker), socketDir(listenerFD)
	if id == "" || dir == "" {
		fmt.Fprintf(os.Stderr, "%s: is started by the daemon, not by hand\n", Name)
		return 2
	}
	process.Sanitize()
	subreaper := process.BecomeSubreaper()
	// One session has little to do at once. Memory is returned when the session is quiet; until
	// then garbage may gather, because a collection would delay the running command.
	runtime.GOMAXPROCS(1)
	unix.SetNonblock(listenerFD, true)
	listener := os.NewFile(listenerFD, "link")
	if listener == nil {
		fmt.Fprintf(os.Stderr, "%s: no listening socket\n", Name)
		return 2
	}
	reaper := process.NewReaper()
	process.ReserveThreads(spareThreads)
	onMain := make(chan func())
	r, err := New(Config{
		SessionID: id, Dir: dir, Version: version.Version, Subreaper: subreaper, Exit: os.Exit,
		Start: func(spec process.Spec) (p *process.Process, err error) {
			done := make(chan struct{})
			onMain <- func() {
				p, err = reaper.Start(spec)
				close(done)
			}
			<-done
			return p, err
		},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", Name, err)
		return 1
	}
	// Catch and drop these signals: children would inherit that they are ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGXFSZ)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		r.terminate()
	}()
	go func() {
		fmt.Fprintf(os.Stderr, "%s: accept: %s\n", Name, r.Serve(listener))
	}()
	for f := range onMain {
		f()
	}
	return 0
}

// socketDir returns the directory of a listening unix socket, which is the session's own.
func socketDir(fd int) string {
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return ""
	}
	if a, ok := addr.(*unix.SockaddrUnix); ok && filepath.IsAbs(a.Name) {
		return filepath.Dir(a.Name)
	}
	return ""
}
