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

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/daemon"
	"github.com/trl-dev/trl/internal/place"
)

const (
	// autoExit is auto_exit_s of a daemon that trl starts, unless the settings have one.
	autoExit = "300"
	// startTimeout bounds the wait for the end of the old daemon and the start of the new one.
	startTimeout = 20 * time.Second
	// logLimit is the size above which the log of a background daemon is renamed.
	logLimit = 10 << 20
)

// autostart starts a daemon in the background, unless another trl was faster, and connects to
// it. Of many trl that come at the same time, the lock lets one start the daemon.
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
	// With a very short auto_exit_s, the daemon may exit before it gets our first request, on a
	// busy machine many times.
	var lost error
	for ctx.Err() == nil {
		c, err := a.dialSocket(ctx, cfg)
		if err == nil || !isAbsent(err) {
			return c, err
		}
		lost = err
		if c, err := a.awaitHolder(ctx, cfg); c != nil || err != nil {
			return c, err
		}
		if err := makeSocketDir(cfg); err != nil {
			return nil, err
		}
		if err := a.spawnDaemon(ctx, cmd, cfg); err != nil {
			// A daemon that was started by hand at the same moment will do.
			if c, dialErr := a.dialSocket(ctx, cfg); dialErr == nil {
				return c, nil
			}
			if ui.StatusOf(err) != ui.ExitRunning {
				return nil, err
			}
			// Another daemon was running, but has exited meanwhile.
		}
	}
	return nil, fmt.Errorf("start the daemon: not reached in %s: %w", startTimeout, lost)
}

// awaitHolder waits for a daemon that holds the state directory but cannot be reached: its
// socket was removed, and it is creating another. It returns nil and nil if there is no such
// daemon.
func (a *app) awaitHolder(ctx context.Context, cfg config.Config) (*client.Client, error) {
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
			return nil, noAnswer(h.PID, h.Socket)
		}
		if c, err := a.dialSocket(ctx, cfg); err == nil || !isAbsent(err) {
			return c, err
		}
	}
}

// errNoAnswer is for errors.Is with an error of noAnswer.
var errNoAnswer = api.Errorf(api.CodeRuntimeUnavailable, "the daemon does not answer").Because("no_answer")

// noAnswer is the error for a daemon that runs but cannot be reached.
func noAnswer(pid int, socket string) error {
	err := api.Errorf(errNoAnswer.Code, "the daemon with pid %d does not answer on %s", pid, socket)
	return ui.WithHint(err.Because(errNoAnswer.Reason()), "`trl stop` ends it")
}

// isMeant reports whether the holder of the state directory is the daemon that the settings
// mean. If the user named a socket, the daemon must listen on that one; a daemon on stdio has
// none.
func isMeant(cfg config.Config, h place.Holder) bool {
	return h.Socket != "" && (cfg.Origin("socket") == config.OriginDefault || h.Socket == cfg.Socket)
}

// wasStopped reports whether the last daemon was stopped on purpose.
func wasStopped(cfg config.Config) bool {
	h, ok := place.ReadHolder(cfg.StateDir)
	return ok && h.Stopping && isMeant(cfg, h)
}

// revive starts another daemon after one vanished: its sessions still exist. It does not replace a
// daemon with another state directory, and one that was stopped on purpose only for the commands
// in afresh.
func (a *app) revive(ctx context.Context, cmd *cobra.Command, cfg config.Config) error {
	if h, ok := place.ReadHolder(cfg.StateDir); !ok || h.Stopping && !afresh[cmd.Name()] || !isMeant(cfg, h) {
		return nil
	}
	c, err := a.autostart(ctx, cmd, cfg)
	if err != nil {
		return err
	}
	return c.Close()
}

// spawnDaemon starts the daemon and waits until it serves.
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
	// The daemon writes "ready" in one write; if it exits instead, the pipe is closed.
	answer := make([]byte, 64)
	n, err := ready.Read(answer)
	switch {
	case n > 0:
		go func() { _ = daemon.Wait() }() // leaves no zombie if the daemon exits before us
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

// daemonEnv returns the environment of a daemon that trl starts. It keeps only the variables
// about the user and about the ways to places (container engines, clusters, the ssh agent): other
// variables of the first caller must not turn up in the sessions of later callers.
func daemonEnv(environ []string) []string {
	keep := map[string]bool{
		"HOME": true, "PATH": true, "USER": true, "LOGNAME": true, "SHELL": true,
		"LANG": true, "LANGUAGE": true, "TZ": true, "TMPDIR": true,
		"DOCKER_HOST": true, "DOCKER_CONTEXT": true, "DOCKER_CONFIG": true, "DOCKER_CERT_PATH": true, "DOCKER_TLS_VERIFY": true,
		"KUBECONFIG": true, "SSH_AUTH_SOCK": true,
	}
	var env []string
	for _, kv := range environ {
		key, _, _ := strings.Cut(kv, "=")
		ours := strings.HasPrefix(key, "TRL_") && !notInherited[key]
		if keep[key] || ours || strings.HasPrefix(key, "LC_") || strings.HasPrefix(key, "XDG_") || strings.HasPrefix(key, "KUBERNETES_SERVICE_") {
			env = append(env, kv)
		}
	}
	return env
}

// lockFile creates a file if necessary and waits for its lock. Closing the file unlocks it.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return lock(ctx, f)
}

// lockDir waits for the lock of a directory. It creates no file.
func lockDir(ctx context.Context, path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return lock(ctx, f)
}

// lock waits for the lock of f, and closes f on an error.
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
		// The goroutine still waits in the kernel. If it gets the lock, closing unlocks it.
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

// makeSocketDir creates the directory of the socket. The daemon would do it, too, but this error
// can say which setting to change.
func makeSocketDir(cfg config.Config) error {
	if err := os.MkdirAll(filepath.Dir(cfg.Socket), 0o700); err != nil {
		return ui.WithHint(fmt.Errorf("directory of the socket: %w", err), "set TRL_SOCKET_PATH to a place that you can write to")
	}
	return nil
}

// openLog opens the log of background daemons, for appending.
func openLog(cfg config.Config) (*os.File, error) {
	path := filepath.Join(cfg.StateDir, "trl.log")
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// logSince returns the last lines that were written to the log after begin, or the cause of a crash
// in them. The final line is the reason why the daemon exited, as finish prints it.
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
	if cause := daemon.Crash(text); cause != "" {
		return cause
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "trl: ")
	}
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
