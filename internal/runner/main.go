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

// spareThreads is how many threads a runner has beside the main one, those of the Go
// runtime and that of the signals. It needs one that runs Go code and one for each
// system call that blocks: the shell's poll, the Drainer's, the end of a process, a
// file, /proc. Nothing else blocks: pipes, sockets and terminals are waited for
// together.
const spareThreads = 5

func init() {
	// The kernel lists a process's children by thread, and gives orphans to the main
	// one: forking there too keeps all of them in one list. Only init can pin main.
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == Name {
		runtime.LockOSThread()
		runtime.MemProfileRate = 0 // nobody reads that profile, and it takes memory
	}
}

// Main is the runner program. It must be called by the main goroutine, and
// returns only when it cannot start; the runner ends by os.Exit.
func Main() int {
	id, dir := os.Getenv(api.SessionMarker), socketDir(listenerFD)
	if id == "" || dir == "" {
		fmt.Fprintf(os.Stderr, "%s: is started by the daemon, not by hand\n", Name)
		return 2
	}
	process.Sanitize()
	subreaper := process.BecomeSubreaper()
	// One session has little to do at once. What is not used is returned when nothing happens;
	// until then garbage may gather: collecting it delays the command that runs meanwhile.
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
	// Caught and dropped rather than ignored: children would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGXFSZ)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		r.toldToEnd()
	}()
	go func() {
		fmt.Fprintf(os.Stderr, "%s: accept: %s\n", Name, r.Serve(listener))
	}()
	for f := range onMain {
		f()
	}
	return 0
}

// socketDir is the directory of a listening unix socket: the session's own.
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
