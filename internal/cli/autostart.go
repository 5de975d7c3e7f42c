package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/place"
)

const (
	// autoExit is how long a daemon that nobody asked for stays without work, unless the settings say.
	autoExit = "300"
	// startTimeout bounds the waiting for the end of the daemon before, and for the start of the next.
	startTimeout = 20 * time.Second
	// logLimit is the size from which on the log of such daemons is put aside.
	logLimit = 10 << 20
)

// autostart starts a daemon in the background, unless another trl was faster, and
// connects to it. The lock makes one of many that come at the same time do the work.
func (a *app) autostart(ctx context.Context, cmd *cobra.Command, cfg config.Config) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := makeStateDir(cfg); err != nil {
		return nil, err
	}
	lock, err := lockFile(ctx, filepath.Join(cfg.StateDir, "start.lock"))
	if err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	defer lock.Close()
	// With a very short auto_exit_s it may end again before we have said a word, on a busy
	// machine many times.
	var lost error
	for ctx.Err() == nil {
		c, err := dial(ctx, cfg)
		if err == nil || !isAbsent(err) {
			return c, err
		}
		lost = err
		if c, err := awaitHolder(ctx, cfg); c != nil || err != nil {
			return c, err
		}
		if err := makeSocketDir(cfg); err != nil {
			return nil, err
		}
		if err := a.spawnDaemon(ctx, cmd, cfg); err != nil {
			// One that was started by hand at the same moment is as good.
			if c, dialErr := dial(ctx, cfg); dialErr == nil {
				return c, nil
			}
			if ui.StatusOf(err) != ui.ExitRunning {
				return nil, err
			}
			// It ran already, but has ended meanwhile.
		}
	}
	return nil, fmt.Errorf("start the daemon: not reached in %s: %w", startTimeout, lost)
}

// awaitHolder waits for the daemon that holds the state directory, where there is one that
// no client can reach: its socket was removed, and it makes another. Without such a daemon
// it returns nothing.
func awaitHolder(ctx context.Context, cfg config.Config) (*client.Client, error) {
	var pause ui.Backoff
	for {
		h, held := place.FindHolder(cfg.StateDir)
		switch {
		case !held || h.Stopping:
			return nil, nil
		case !isMeant(cfg, h):
			on := h.Socket
			if on == "" {
				on = "stdio"
			}
			return nil, ui.WithHint(fmt.Errorf("start the daemon: state_dir %s: in use by the daemon with pid %d, which serves on %s", cfg.StateDir, h.PID, on),
				"use that socket, or set another state_dir for a second daemon")
		}
		if pause.Wait(ctx) != nil {
			return nil, ui.WithHint(fmt.Errorf("the daemon with pid %d does not answer on %s", h.PID, h.Socket), "`trl stop` ends it")
		}
		if c, err := dial(ctx, cfg); err == nil || !isAbsent(err) {
			return c, err
		}
	}
}

// isMeant reports whether the holder of the state directory is the daemon that the settings
// mean. A socket that the user named is that one and no other, and a daemon on stdio has none.
func isMeant(cfg config.Config, h place.Holder) bool {
	return h.Socket != "" && (cfg.Origin("socket") == config.OriginDefault || h.Socket == cfg.Socket)
}

// revive starts another daemon in the place of one that vanished: its sessions are still
// there. One that was stopped on purpose, or belongs to another state directory, is not ours to
// start again.
func (a *app) revive(ctx context.Context, cmd *cobra.Command, cfg config.Config) error {
	if h, ok := place.ReadHolder(cfg.StateDir); !ok || h.Stopping || !isMeant(cfg, h) {
		return nil
	}
	c, err := a.autostart(ctx, cmd, cfg)
	if err != nil {
		return err
	}
	return c.Close()
}

// spawnDaemon starts the daemon and returns when it serves.
func (a *app) spawnDaemon(ctx context.Context, cmd *cobra.Command, cfg config.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := openLog(cfg)
	if err != nil {
		return err
	}
	defer log.Close()
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	ready, childReady, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()

	args, err := settingFlagsGiven(cmd, cfg)
	if err != nil {
		return err
	}
	args = append([]string{"serve", "--ready-fd", "3"}, args...)
	if cfg.Origin("auto_exit_s") == config.OriginDefault {
		args = append(args, "--auto-exit-s", autoExit)
	}
	daemon := exec.Command(self, args...)
	daemon.Dir = "/"
	daemon.Env = daemonEnv(os.Environ())
	daemon.Stdout, daemon.Stderr = log, log
	daemon.ExtraFiles = []*os.File{childReady}
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = daemon.Start()
	_ = childReady.Close()
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	if a.verbose {
		a.Stderr.Linef("trl: started the daemon, pid %d, log %s", daemon.Process.Pid, log.Name())
	}

	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Now()) })
	defer stop()
	// The daemon says "ready" in one write, or ends and the pipe with it.
	answer := make([]byte, 64)
	n, err := ready.Read(answer)
	switch {
	case n > 0:
		go func() { _ = daemon.Wait() }() // no zombie is left when the daemon ends before us
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		go func() { _ = daemon.Wait() }()
		return ui.WithHint(fmt.Errorf("start the daemon: not ready after %s", startTimeout), "its log is %s", log.Name())
	}
	_ = daemon.Wait()
	said := logSince(log.Name(), begin)
	if said == "" {
		said = daemon.ProcessState.String()
	}
	err = fmt.Errorf("start the daemon: %s", said)
	if status := daemon.ProcessState.ExitCode(); status == ui.ExitRunning {
		err = &ui.Failure{Err: err, Status: status}
	}
	return ui.WithHint(err, "its log is %s", log.Name())
}

// daemonEnv is the environment of a daemon that nobody asked for. Only what says
// who and where the user is goes in: what the first caller happens to have set must
// not turn up in the sessions of all others.
func daemonEnv(environ []string) []string {
	keep := map[string]bool{
		"HOME": true, "PATH": true, "USER": true, "LOGNAME": true, "SHELL": true,
		"LANG": true, "LANGUAGE": true, "TZ": true, "TMPDIR": true,
	}
	var env []string
	for _, kv := range environ {
		key, _, _ := strings.Cut(kv, "=")
		ours := strings.HasPrefix(key, "TRL_") && !notInherited[key]
		if keep[key] || ours || strings.HasPrefix(key, "LC_") || strings.HasPrefix(key, "XDG_") {
			env = append(env, kv)
		}
	}
	return env
}

// lockFile waits for the lock of a file of its own. Closing it gives it back.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return lock(ctx, f)
}

// lockDir waits for the lock of a directory, where no file is to be made.
func lockDir(ctx context.Context, path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return lock(ctx, f)
}

func lock(ctx context.Context, f *os.File) (*os.File, error) {
	locked := make(chan error, 1)
	go func() {
		for {
			err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
			if !errors.Is(err, unix.EINTR) {
				locked <- err
				return
			}
		}
	}()
	select {
	case err := <-locked:
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return f, nil
	case <-ctx.Done():
		// The goroutine stays in the kernel; a lock that it still gets is given back.
		go func() {
			<-locked
			_ = f.Close()
		}()
		return nil, fmt.Errorf("lock %s: still held by another process: %w", f.Name(), ctx.Err())
	}
}

func makeStateDir(cfg config.Config) error {
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return ui.WithHint(fmt.Errorf("state directory: %w", err), "set TRL_STATE_DIR to a directory that you can write to")
	}
	return nil
}

// makeSocketDir makes the directory of the socket, as the daemon would: from here the error
// can say which setting to change.
func makeSocketDir(cfg config.Config) error {
	if err := os.MkdirAll(filepath.Dir(cfg.Socket), 0o700); err != nil {
		return ui.WithHint(fmt.Errorf("directory of the socket: %w", err), "set TRL_SOCKET_PATH to a place that you can write to")
	}
	return nil
}

// openLog opens the log of daemons that run in the background, for appending.
func openLog(cfg config.Config) (*os.File, error) {
	path := filepath.Join(cfg.StateDir, "trl.log")
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// logSince returns the last lines of what was written to the log after begin. The last
// of all is why the daemon ended, in the words of finish.
func logSince(path string, begin int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := f.Seek(begin, io.SeekStart); err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "trl: ")
	}
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
