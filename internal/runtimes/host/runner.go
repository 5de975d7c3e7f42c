package host

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes/runners"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
	"github.com/trl-dev/trl/internal/wire"
)

// The files in a session's directory that are ours.
const (
	socketName = "link.sock"
	logName    = "log"
)

// runner is one runner process.
type runner struct {
	rt   *Runtime
	rec  record           // Name and Tags are guarded by mu once it is started
	info process.Info     // PID and StartTime alone; PID 0 when it is not known
	proc *process.Process // nil for a child of an earlier daemon
	done chan struct{}    // for a child of an earlier daemon

	mu      sync.Mutex
	removed bool // guarded by mu; the record is removed, or about to be
}

// Start starts the runner of a new session.
func (rt *Runtime) Start(ctx context.Context, spec session.Spec) (session.Runner, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &runner{rt: rt, rec: record{
		Record: state.Record{
			SessionID: spec.SessionID, Runtime: name, Word: spec.Word, CreatedAt: spec.CreatedAt, Protocol: link.Protocol, Key: rand.Text(),
			Name: spec.Name, Kind: spec.Kind, Tags: spec.Tags, Guest: spec.Guest,
		},
		Dir: filepath.Join(rt.runtimeDir, spec.SessionID), BootID: process.BootID(), Limits: rt.limits,
	}}
	if rt.cgroups != "" {
		r.rec.Cgroup = filepath.Join(rt.cgroups, spec.SessionID)
	}
	// The record comes first: a later daemon then knows of everything that is made from here on.
	if err := rt.writeRecord(r.rec); err != nil {
		return nil, fmt.Errorf("session record: %w", err)
	}
	if err := r.start(); err != nil {
		r.Remove(r.proc == nil)
		return nil, err
	}
	return r, nil
}

func (r *runner) start() error {
	err := os.Mkdir(r.rec.Dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) { // a cleaner of temporary files has removed the runtime directory
		if err = config.MakePrivate(r.rt.runtimeDir); err == nil {
			err = os.Mkdir(r.rec.Dir, 0o700)
		}
	}
	if err != nil {
		return fmt.Errorf("session directory: %w", err)
	}
	files, err := r.openFiles()
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return fmt.Errorf("session directory: %w", err)
	}
	spec := process.Spec{
		Path: r.rt.program, Args: []string{runners.Name}, Dir: "/", Files: files, Setsid: true,
		Env: append([]string{api.SessionMarker + "=" + r.rec.SessionID}, r.rt.environ...),
	}
	if r.rec.Guest != nil {
		// The owner does not know this machine: the runner itself has the environment that the
		// session begins with, as in every other place.
		spec.Args = append(spec.Args, link.VerbServe)
		spec.Env = append(spec.Env[:1], r.rt.guestEnviron()...)
		secrets, err := json.Marshal(r.rt.secrets)
		if err != nil {
			return fmt.Errorf("secrets: %w", err)
		}
		spec.Env = append(spec.Env, link.SecretsVariable+"="+string(secrets))
		spec.Files = append(spec.Files, files[0]) // where it would report to its starter
	}
	r.proc, err = r.rt.Spawn(spec)
	if err != nil {
		if process.NoRoom(err) {
			return api.Errorf(api.CodeResourcePressure, "runner: %s", err)
		}
		return fmt.Errorf("runner: %w", err)
	}
	// The process is not reaped before Done, so this is the one that was started. A process that
	// ended at once has a start time too.
	r.info, _ = process.Stat(r.proc.PID)
	r.rec.RunnerPID, r.rec.RunnerStart = r.proc.PID, r.info.StartTime
	if err := r.rt.writeRecord(r.rec); err != nil {
		r.Kill()
		<-r.Done()
		return fmt.Errorf("session record: %w", err)
	}
	return nil
}

// openFiles opens the descriptors of the runner: an empty stdin, its log as stdout and stderr, and
// the socket on which it accepts connections.
func (r *runner) openFiles() ([]*os.File, error) {
	var files []*os.File
	null, err := os.Open(os.DevNull)
	if err != nil {
		return files, err
	}
	files = append(files, null)
	log, err := os.OpenFile(filepath.Join(r.rec.Dir, logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return files, err
	}
	files = append(files, log, log)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.socket(), Net: "unix"})
	if err != nil {
		return files, err
	}
	l.SetUnlinkOnClose(false)
	socket, err := l.File()
	if chmodErr := os.Chmod(r.socket(), 0o600); err == nil {
		err = chmodErr
	}
	// No copy of the socket may stay here: a connection to a runner that died must be refused.
	l.Close()
	if socket != nil {
		files = append(files, socket)
	}
	return files, err
}

func (r *runner) socket() string { return filepath.Join(r.rec.Dir, socketName) }

// adopt starts to watch a runner of an earlier daemon. It reports false if the runner is dead.
func (r *runner) adopt() bool {
	now, ok := process.Stat(r.info.PID)
	if r.info.PID <= 0 || !ok || now.StartTime != r.info.StartTime || now.Ended() {
		return false
	}
	r.done = make(chan struct{})
	r.rt.watches.Go(func() {
		if waitExit(r.rt.ctx, r.info) {
			// After an upgrade it is a child of this process. No zombie may outlive the session.
			r.rt.reaper.Reap()
			close(r.done)
		}
	})
	return true
}

// About returns the session that it was started for.
func (r *runner) About() session.About {
	r.mu.Lock()
	defer r.mu.Unlock()
	return session.About{SessionID: r.rec.SessionID, Word: r.rec.Word, Name: r.rec.Name, Kind: r.rec.Kind, Tags: r.rec.Tags, CreatedAt: r.rec.CreatedAt, Guest: r.rec.Guest}
}

// Place returns this machine: the environment of the daemon, without the variables that are about the
// daemon itself, and the configured directories.
func (r *runner) Place() session.Place { return r.rt.place }

// Describe writes the name and the tags into the record.
func (r *runner) Describe(name string, tags []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.removed {
		return nil
	}
	r.rec.Name, r.rec.Tags = name, tags
	return r.rt.writeRecord(r.rec)
}

// Key returns the key from the record, which only this user can read.
func (r *runner) Key() string { return r.rec.Key }

// Dial connects to the runner's socket and checks that it belongs to this user.
func (r *runner) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", r.socket())
	if err != nil {
		return nil, err
	}
	uc := conn.(*net.UnixConn)
	peer, err := wire.PeerOf(uc)
	if err == nil && peer.UID != os.Getuid() {
		err = fmt.Errorf("socket %s belongs to uid %d, not to %d", r.socket(), peer.UID, os.Getuid())
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	wire.Widen(uc)
	return conn, nil
}

// PID returns the process id of the runner.
func (r *runner) PID() int { return r.rec.RunnerPID }

// Done is closed when the process has ended.
func (r *runner) Done() <-chan struct{} {
	if r.proc != nil {
		return r.proc.Done()
	}
	return r.done
}

// Kill kills the process.
func (r *runner) Kill() {
	if r.proc != nil {
		_ = r.proc.Signal(syscall.SIGKILL)
		return
	}
	if h, ok := process.Open(r.info); ok {
		_ = h.Signal(syscall.SIGKILL)
		h.Close()
	}
}

// Remove ends the processes that the runner left behind and removes the files of the session. It
// finds the processes in the session's cgroup, by the marker in their environment, and among the
// orphans that this process adopted. After a clean end it does not look for the marker, because
// that means a look at all processes of the machine.
func (r *runner) Remove(clean bool) session.Remains {
	if r.proc != nil {
		select {
		case <-r.proc.Done():
			r.rt.Forget(r.proc.PID)
		default: // it could not be killed, so sweep must still spare it
		}
	}
	cause, noRoom := r.cause()
	remains := session.Remains{Cause: cause, NoRoom: noRoom}
	add := func(killed []process.Killed) {
		for _, k := range killed {
			if k.PID != r.info.PID {
				remains.Killed = append(remains.Killed, api.KilledProcess{PID: k.PID, Command: k.Command, Signal: process.SignalName(k.Signal)})
			}
		}
	}
	if group := process.OpenCgroup(r.rec.Cgroup); group != nil {
		add(group.KillAll())
		if err := group.Remove(); err != nil {
			r.rt.log.Warn("session's cgroup cannot be removed", "session_id", r.rec.SessionID, "error", err)
		}
		group.Close()
	}
	if err := limits.RemoveAt(r.rec.Limits, r.rec.SessionID); err != nil {
		r.rt.log.Warn("session's cgroups with limits cannot be removed", "session_id", r.rec.SessionID, "error", err)
	}
	if !clean {
		add(process.KillAll(process.Marked(api.SessionMarker, r.rec.SessionID, r.info.StartTime), syscall.SIGKILL, 0))
	}
	add(r.rt.sweep())
	r.removeFiles()
	return remains
}

// cause returns how the process ended, with the last line of its log. NoRoom says that the system
// refused it a thread.
func (r *runner) cause() (how string, noRoom bool) {
	how = "its process no longer exists"
	if r.proc != nil {
		select {
		case <-r.proc.Done():
			how = describe(r.proc.Exit())
		default:
			how = "it does not end"
		}
	}
	line, noRoom := process.LastWords(filepath.Join(r.rec.Dir, logName))
	if line != "" {
		how += ": " + line
	}
	return how, noRoom
}

func describe(e process.Exit) string {
	if e.Signal != 0 {
		return "killed by " + process.SignalName(e.Signal)
	}
	return fmt.Sprintf("exit status %d", e.Status)
}
