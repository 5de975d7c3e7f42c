package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
)

// The files in the directory of a session in a place, beside those of the shell.
const (
	socketFile = "link.sock"
	logFile    = "log"
	reportFile = "runner.json"
)

// dirVariable names the directory for the directories of sessions, before all others.
const dirVariable = "TRL_RUNNER_DIR"

// readyTimeout bounds the wait for a new runner to serve.
const readyTimeout = 30 * time.Second

// placeReport is the file that a later trl-runner finds a runner by.
type placeReport struct {
	link.Report
	Cgroup string   `json:"cgroup,omitempty"`
	Limits []string `json:"limits,omitempty"` // see limits.Roots
}

func (p placeReport) info() process.Info {
	return process.Info{PID: p.PID, StartTime: p.Start}
}

// bases lists the directories in which those of sessions may be, best first: in memory, and not
// removed when the user logs out. systemd removes /run/user/UID and a user's files in /dev/shm then.
func bases() []string {
	name := "trl-places-" + strconv.Itoa(os.Getuid())
	list := []string{"/run/" + name}
	if dir := os.Getenv(dirVariable); filepath.IsAbs(dir) {
		list = append([]string{filepath.Clean(dir)}, list...)
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		list = append(list, "/dev/shm/"+name)
	}
	list = append(list, "/tmp/"+name, "/var/tmp/"+name)
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		list = append(list, filepath.Join(home, "."+name))
	}
	return list
}

// isSessionID reports whether a word has the form of a session's id. Ids become paths.
func isSessionID(id string) bool {
	return len(id) > 2 && len(id) < 40 && id[:2] == "s-" && strings.Trim(id[2:], "0123456789abcdef") == ""
}

// private makes a directory, or checks that it belongs to this user alone.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Getuid() || st.Mode&0o022 != 0 {
		return errors.New(dir + ": is not a directory of this user alone")
	}
	return nil
}

// findRunner returns the directory of a session and what is known about its runner. An id without
// a directory is looked for.
func findRunner(dirOrID string) (dir string, p placeReport) {
	candidates := []string{dirOrID}
	if !filepath.IsAbs(dirOrID) {
		candidates = candidates[:0]
		for _, base := range bases() {
			candidates = append(candidates, filepath.Join(base, dirOrID))
		}
	}
	for _, c := range candidates {
		if text, err := os.ReadFile(filepath.Join(c, reportFile)); err == nil && json.Unmarshal(text, &p) == nil {
			return c, p
		}
	}
	return candidates[0], placeReport{}
}

// alive reports whether that very process runs.
func alive(i process.Info) bool {
	now, ok := process.Stat(i.PID)
	return i.PID > 0 && ok && now.StartTime == i.StartTime && !now.Ended()
}

// startRunner starts the runner of a session, detached from this process, unless it runs already.
// It returns when the runner serves.
func startRunner(id string, reaper *process.Reaper) (link.Report, error) {
	if !isSessionID(id) {
		return link.Report{}, errors.New(strconv.Quote(id) + " is not the id of a session")
	}
	if _, p := findRunner(id); alive(p.info()) {
		return p.Report, nil
	}
	var all []error
	for _, base := range bases() {
		r, err := startIn(base, id, reaper)
		var fatal *runnerError
		if err == nil || errors.As(err, &fatal) {
			return r, err
		}
		all = append(all, err)
	}
	return link.Report{}, fmt.Errorf("no directory is suitable for the socket of the session; %w", errors.Join(all...))
}

// runnerError says that a runner could not be started, for a reason that is the same in every
// directory.
type runnerError struct{ error }

func startIn(base, id string, reaper *process.Reaper) (link.Report, error) {
	dir := filepath.Join(base, id)
	lock, err := lockReport(base, dir)
	if err != nil {
		return link.Report{}, err
	}
	defer lock.Close()
	var p placeReport
	if text, err := io.ReadAll(lock); err == nil && json.Unmarshal(text, &p) == nil && alive(p.info()) {
		return p.Report, nil // another trl-runner was faster
	}
	p = placeReport{Report: link.Report{Dir: dir}, Limits: limits.Roots()}
	if root := process.CgroupRoot(); root != "" {
		p.Cgroup = filepath.Join(root, id)
	}
	info, err := spawn(dir, id, reaper)
	if err == nil {
		p.PID, p.Start = info.PID, info.StartTime
		text, _ := json.Marshal(p)
		if err = lock.Truncate(0); err == nil {
			_, err = lock.WriteAt(text, 0)
		}
	}
	if err != nil {
		if h, ok := process.Open(info); info.PID > 0 && ok {
			_ = h.Signal(unix.SIGKILL)
			h.Close()
		}
		os.RemoveAll(dir)
		os.Remove(base) // fails while other sessions are there
		return link.Report{}, err
	}
	return p.Report, nil
}

// lockReport makes the directory of a session and opens the file of its report, which is locked
// until it is closed: only one process starts the runner.
func lockReport(base, dir string) (*os.File, error) {
	for attempt := 0; ; attempt++ {
		err := private(base)
		if err == nil {
			err = private(dir)
		}
		var f *os.File
		if err == nil {
			f, err = os.OpenFile(filepath.Join(dir, reportFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		}
		if err == nil {
			for err = unix.EINTR; err == unix.EINTR; {
				err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
			}
			var st unix.Stat_t
			if err == nil && unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink > 0 {
				return f, nil
			}
			f.Close()
			err = os.ErrNotExist
		}
		// The last session that ends removes both directories.
		if !errors.Is(err, os.ErrNotExist) || attempt == 10 {
			return nil, err
		}
	}
}

// spawn starts a runner with its own files, and waits until it serves.
func spawn(dir, id string, reaper *process.Reaper) (info process.Info, err error) {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return info, err
	}
	files = append(files, null)
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return info, err
	}
	files = append(files, log, log)
	listener, err := listen(filepath.Join(dir, socketFile))
	if err != nil {
		return info, err
	}
	files = append(files, listener)
	ready, signal, err := os.Pipe()
	if err != nil {
		return info, err
	}
	defer ready.Close()
	files = append(files, signal)
	self, err := os.Executable()
	if err != nil {
		return info, &runnerError{err}
	}
	cwd, _ := os.Getwd() // the directory of the image, or the home directory
	p, err := reaper.Start(process.Spec{
		Path: self, Args: []string{Name, verbServe}, Dir: "/", Files: files, Setsid: true,
		Env: append(runnerEnv(os.Environ()), api.SessionMarker+"="+id, startDirVariable+"="+cwd),
	})
	if err != nil {
		return info, &runnerError{err}
	}
	info, _ = process.Stat(p.PID)
	signal.Close()
	_ = ready.SetReadDeadline(time.Now().Add(readyTimeout))
	if n, _ := ready.Read(make([]byte, 1)); n == 1 {
		return info, nil
	}
	_ = p.Signal(unix.SIGKILL)
	<-p.Done()
	why, _ := process.LastWords(log.Name())
	if why == "" {
		why = "it closed its socket"
	}
	return info, &runnerError{errors.New("the runner could not start: " + why)}
}

// listen makes a listening socket that only this user can connect to.
func listen(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	unix.CloseOnExec(fd)
	os.Remove(path) // of a runner that died
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		err = unix.Chmod(path, 0o600)
	}
	if err == nil {
		err = unix.Listen(fd, 128)
	}
	if err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "listen", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// keepFromCleaners keeps systemd-tmpfiles(8) from removing old files of the directory: it spares
// directories that are locked.
func keepFromCleaners(dir string) {
	if fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
	}
}

// spillDir returns the directory for output that does not fit into memory: not in memory, if the
// place has such a directory.
func spillDir(dir string) string {
	for _, d := range []string{"/var/tmp", "/tmp"} {
		if unix.Access(d, unix.W_OK|unix.X_OK) == nil {
			return d
		}
	}
	return dir
}
