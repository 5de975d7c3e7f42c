package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/confine"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/version"
)

// Name is argv[0] of a runner process.
const Name = "trl-runner"

// The descriptors of a runner: its listening socket, and in a place the pipe in which it says that
// it serves.
const (
	listenerFD = 3
	readyFD    = 4
)

// spareThreads is how many threads a runner has beside the main thread, those of the Go
// runtime and that of the signals. It needs one to run Go code and one for each blocking
// system call: the poll of the shell, the poll of the Drainer, the wait for a process, a file,
// /proc. Pipes, sockets and terminals share one poller.
const spareThreads = 5

// Called reports whether this process was started as a runner: by a name that begins with Name, or
// with a dot and Name while its file is being copied.
func Called() bool {
	return len(os.Args) > 0 && strings.HasPrefix(strings.TrimPrefix(filepath.Base(os.Args[0]), "."), Name)
}

func verb() string {
	if len(os.Args) < 2 {
		return ""
	}
	return os.Args[1]
}

func init() {
	// The kernel lists the children of a process by thread and gives orphans to the main
	// thread. Forking on the main thread keeps all children in one list. Only init can pin
	// the main goroutine to it.
	if Called() && (verb() == "" || verb() == verbServe) {
		runtime.LockOSThread()
		runtime.MemProfileRate = 0 // the profile is never read, and it takes memory
	}
}

// Main is the runner program. The main goroutine must call it. A running runner ends by os.Exit,
// so Main returns only if it cannot start. With a verb, Main does something for the runners of a
// place and returns.
func Main() int {
	switch verb() {
	case "":
		return serve(false)
	case verbServe:
		return serve(true)
	}
	if verb() == confine.Verb {
		return confine.Enter(os.Args[2:])
	}
	return placeVerb(os.Args[1], os.Args[2:])
}

// serve is the runner of a session. In a place that is not the daemon's machine, it was started by
// another trl-runner.
func serve(inPlace bool) int {
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
	c := Config{
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
	}
	if inPlace {
		c.BaseEnv, c.StartDir, c.SpillDir = baseEnv(os.Environ()), os.Getenv(startDirVariable), spillDir(dir)
		_ = json.Unmarshal([]byte(os.Getenv(link.SecretsVariable)), &c.Secrets) // only a guest has the variable
		c.Secrets = append(c.Secrets, filepath.Dir(dir))
		c.Program, _ = os.Executable()
		keepFromCleaners(dir)
	}
	r, err := New(c)
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
	if inPlace {
		_, _ = unix.Write(readyFD, []byte{1})
		unix.Close(readyFD)
	}
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
