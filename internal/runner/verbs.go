package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/version"
)

// startDirVariable tells the runner of a place the directory that sessions begin in. Sessions do not see it.
const startDirVariable = "TRL_START_DIR"

// The verbs of trl-runner in a place that is not the daemon's machine. verbServe is for trl-runner
// itself.
const (
	verbServe   = link.VerbServe
	verbStart   = "start"
	verbInit    = "init"
	verbConnect = "connect"
	verbKill    = "kill"
	verbRemove  = "remove"
	verbCheck   = "check"
	verbCopy    = "copy"
)

const usage = `trl-runner owns a session of TRL. A daemon starts it; in a place that is not the daemon's machine with

  start SESSION_ID              start a runner, or find the one that runs, and report it
  init [SESSION_ID]             be the first process of a container, and start a runner in it
  connect DIR PID START NONCE   join stdin and stdout to the socket of a runner
  kill DIR PID START            kill a runner
  remove DIR PID START [--clean]  end what a runner left behind, and remove its directory
  check [SHA256]                report what this place offers, if this program has that hash
  copy FILE                     copy this program, which is how an image without a shell gets it

DIR is the directory of a session, or its id. PID and START identify the process, or are 0.
`

// placeVerb carries out one verb and returns the exit status.
func placeVerb(verb string, args []string) int {
	process.Sanitize()
	switch {
	case verb == verbStart && len(args) == 1:
		return start(args[0])
	case verb == verbInit && len(args) <= 1:
		return initProcess(args)
	case verb == verbCheck && len(args) <= 1:
		return check(args)
	case verb == verbCopy && len(args) == 1:
		if err := copySelf(args[0]); err != nil {
			return complain(1, err.Error())
		}
		return 0
	}
	if len(args) >= 3 {
		dir, p, ok := identify(args)
		switch rest := args[3:]; {
		case !ok:
		case verb == verbConnect && len(rest) == 1:
			return connect(dir, p, rest[0])
		case verb == verbKill && len(rest) == 0:
			return kill(p)
		case verb == verbRemove && len(rest) == 0:
			return remove(dir, p, false)
		case verb == verbRemove && len(rest) == 1 && rest[0] == "--clean":
			return remove(dir, p, true)
		}
	}
	fmt.Fprint(os.Stderr, usage)
	return 2
}

// identify reads the arguments DIR PID START. A process that the caller does not know is the one
// that the directory names.
func identify(args []string) (dir string, p placeReport, ok bool) {
	pid, pidErr := strconv.Atoi(args[1])
	began, startErr := strconv.ParseUint(args[2], 10, 64)
	if !isSessionID(filepath.Base(args[0])) || pidErr != nil || startErr != nil {
		return "", p, false
	}
	dir, p = findRunner(args[0])
	if pid > 0 {
		p.PID, p.Start = pid, began
	}
	return dir, p, true
}

// complain prints an error and returns status.
func complain(status int, text string) int {
	fmt.Fprintf(os.Stderr, "%s: %s\n", Name, text)
	return status
}

// answer prints one line of JSON.
func answer(v any) int {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	if err != nil {
		return complain(1, err.Error())
	}
	return 0
}

func start(id string) int {
	reaper := process.NewReaper()
	r, err := startRunner(id, reaper)
	if err != nil {
		return complain(1, err.Error())
	}
	return answer(r)
}

// check reports on this place. It is refused if the file of this program is not the one that was to
// be copied.
func check(hash []string) int {
	if len(hash) == 1 {
		if has, err := ownHash(); err != nil || has != hash[0] {
			return complain(1, fmt.Sprintf("this program has the hash %s, want %s (%v)", has, hash[0], err))
		}
	}
	s := link.Surroundings{Version: version.Version, Protocol: link.Protocol, OS: runtime.GOOS, Arch: runtime.GOARCH, Enforced: []string{}}
	if process.BecomeSubreaper() {
		s.Enforced = append(s.Enforced, "subreaper")
	}
	if process.CgroupRoot() != "" {
		s.Enforced = append(s.Enforced, "cgroup.kill")
	}
	return answer(s)
}

// copySelf copies the file of this program. A file of that name is replaced in one step.
func copySelf(to string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	part := to + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(part, 0o755) // the umask may have taken bits away
	}
	if err == nil {
		err = os.Rename(part, to)
	}
	if err != nil {
		os.Remove(part)
	}
	return err
}

func ownHash() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// killTimeout is how long a killed process may take to end.
const killTimeout = 5 * time.Second

// kill kills a runner and waits for its end.
func kill(p placeReport) int {
	h, ok := process.Open(p.info())
	if p.PID <= 0 || !ok {
		return 0
	}
	defer h.Close()
	_ = h.Signal(syscall.SIGKILL)
	if !process.WaitGone([]*process.Handle{h}, time.Now().Add(killTimeout)) {
		return complain(1, "process "+strconv.Itoa(p.PID)+" did not end")
	}
	return 0
}

// remove ends a runner and the processes that it left behind, and removes the directory of its
// session. It finds the processes in the session's cgroup, and by the marker in their environment
// unless the runner has reported a clean end.
func remove(dir string, p placeReport, clean bool) int {
	id := filepath.Base(dir)
	var r link.Removed
	r.Cause, r.NoRoom = process.LastWords(filepath.Join(dir, logFile))
	if kill(p) != 0 {
		return 1
	}
	var killed []process.Killed
	if group := process.OpenCgroup(p.Cgroup); group != nil {
		killed = group.KillAll()
		if err := group.Remove(); err != nil {
			complain(0, err.Error())
		}
		group.Close()
	}
	if err := limits.RemoveAt(p.Limits, id); err != nil {
		complain(0, err.Error())
	}
	if !clean {
		killed = append(killed, process.KillAll(process.Marked(api.SessionMarker, id, p.Start), syscall.SIGKILL, 0)...)
	}
	r.Killed = listKilled(killed)
	// The directory may come from a file, so only one that was made for a session is removed.
	if base := filepath.Dir(dir); filepath.IsAbs(dir) && isBase(base) {
		if err := os.RemoveAll(dir); err != nil {
			return complain(1, err.Error())
		}
		os.Remove(base) // fails while other sessions are there
	}
	return answer(r)
}

func isBase(dir string) bool {
	for _, base := range bases() {
		if dir == base {
			return true
		}
	}
	return false
}

// howEnded says how a runner ended, as far as is known.
func howEnded(dir string) string {
	if why, _ := process.LastWords(filepath.Join(dir, logFile)); why != "" {
		return why
	}
	return "its process no longer exists"
}

// dial connects to the socket of a runner.
func dial(dir string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, socketFile)})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// connect joins stdin and stdout to the socket of a runner until either side ends.
func connect(dir string, p placeReport, nonce string) int {
	if strings.ContainsAny(nonce, "\x00\n") {
		return complain(2, "the nonce has a line break")
	}
	if !alive(p.info()) {
		return complain(link.StatusGone, howEnded(dir))
	}
	socket, err := dial(dir)
	switch {
	case err != nil && alive(p.info()):
		return complain(link.StatusHidden, "the runner lives, but its socket cannot be used: "+err.Error())
	case err != nil:
		return complain(link.StatusGone, howEnded(dir))
	}
	if _, now := findRunner(dir); now.PID != p.PID || now.Start != p.Start {
		return complain(link.StatusGone, "the session has another runner now")
	}
	if err := writeAll(1, []byte(link.Preamble(nonce))); err != nil {
		return 1
	}
	join(socket)
	return 0
}
