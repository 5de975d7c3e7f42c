package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/place"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/version"
)

const (
	// handoverVariable names the descriptors that a program leaves open for the next one.
	handoverVariable = "TRL_HANDOVER"
	// chosenVariable has the fronts that were turned on or off by hand, as JSON: daemon.chosen.
	// It is apart from the descriptors, so that an older program can take over.
	chosenVariable = "TRL_HANDOVER_FRONTS"
	// notifyVariable is the variable in which a service manager passes its socket; see sd_notify(3).
	notifyVariable = "NOTIFY_SOCKET"
	// tryTimeout bounds the trial of a new program.
	tryTimeout = 20 * time.Second
	// tryOutput bounds the output of a program that is tried.
	tryOutput = 64 << 10
)

// CheckFlag makes `trl serve` check its settings, print a Program and exit.
const CheckFlag = "check"

// Program is what `trl serve --check` prints.
type Program struct {
	Version  string `json:"version"`
	Protocol int    `json:"protocol"`
}

// Crash finds in a log why the daemon that wrote it crashed, "" if it did not.
func Crash(log []byte) string {
	cause, _ := process.Crash(log)
	return cause
}

// Self returns the program that runs.
func Self() Program { return Program{Version: version.Version, Protocol: link.Protocol} }

// replacement is a program that was tried and is to take over.
type replacement struct{ binary string }

// upgrade tries a program and makes serve hand over to it. An empty binary stands for the file that
// this daemon was started from, as it is now.
func (d *daemon) upgrade(ctx context.Context, binary string) (api.SystemUpgradeResult, error) {
	if d.listener == nil {
		return api.SystemUpgradeResult{}, api.Errorf(api.CodeConflict, "daemon: serves on stdio and cannot be replaced")
	}
	if binary == "" {
		binary = d.executable
	}
	if !filepath.IsAbs(binary) {
		return api.SystemUpgradeResult{}, api.InvalidParam("binary", "%q is not an absolute path", binary)
	}
	next, err := d.try(ctx, binary)
	if err != nil {
		return api.SystemUpgradeResult{}, api.Errorf(api.CodeConflict, "%s: cannot take over: %s", binary, err)
	}
	select {
	case d.replace <- replacement{binary}:
	default:
		return api.SystemUpgradeResult{}, api.Errorf(api.CodeConflict, "daemon: is already being replaced")
	}
	return api.SystemUpgradeResult{PID: os.Getpid(), Binary: binary, From: version.Version, To: next.Version}, nil
}

// try runs a program with CheckFlag, to know that it would start with the arguments and settings of
// this daemon, and understands its runners.
func (d *daemon) try(ctx context.Context, binary string) (Program, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return Program{}, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return Program{}, err
	}
	defer r.Close()
	args := append(slices.Clone(d.args()), "--"+CheckFlag)
	p, err := d.runtime.Spawn(process.Spec{Path: binary, Args: args, Env: os.Environ(), Files: []*os.File{null, w, w}})
	w.Close()
	if err != nil {
		return Program{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Signal(syscall.SIGKILL) })
	defer stop()
	said, _ := io.ReadAll(io.LimitReader(r, tryOutput))
	r.Close() // trl does not print more
	<-p.Done()
	d.runtime.Forget(p.PID)
	text := strings.TrimSpace(string(said))
	if code := p.Exit().Code(); code != 0 {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return Program{}, errors.New("does not answer")
		}
		if ctx.Err() != nil {
			return Program{}, ctx.Err()
		}
		return Program{}, fmt.Errorf("`serve --%s` ended with status %d: %.500s", CheckFlag, code, text)
	}
	var next Program
	if err := json.Unmarshal([]byte(text), &next); err != nil || next.Version == "" {
		return Program{}, fmt.Errorf("does not look like trl: it printed %.200q", text)
	}
	if next.Protocol < link.Protocol || next.Protocol > link.Protocol+1 {
		return Program{}, fmt.Errorf("version %s speaks protocol %d to runners, but the live runners speak %d", next.Version, next.Protocol, link.Protocol)
	}
	return next, nil
}

// args returns the arguments of this program, without --ready-fd, which was for the first start
// only.
func (d *daemon) args() []string {
	args := slices.Clone(os.Args)
	for i := 1; i < len(args); {
		name, _, joined := strings.Cut(args[i], "=")
		switch {
		case name != "--ready-fd":
			i++
		case joined || i+1 == len(args):
			args = slices.Delete(args, i, i+1)
		default:
			args = slices.Delete(args, i, i+2)
		}
	}
	return args
}

// upgradeOnSignal calls upgrade at each SIGUSR2, until stop is called.
func (d *daemon) upgradeOnSignal() (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR2)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for {
			select {
			case <-signals:
				if r, err := d.upgrade(ctx, ""); err != nil {
					d.log.Error("upgrade refused", "error", err)
				} else {
					d.log.Info("upgrade", "from", r.From, "to", r.To, "binary", r.Binary)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		cancel()
		<-done
	}
}

// become makes this process run the new program by exec, or the present one again if that fails. It
// returns only if both fail. The sessions live on in any case.
func (d *daemon) become(r replacement) error {
	d.log.Info("daemon is replaced", "binary", r.binary)
	h, err := d.listener.HandOver()
	if err != nil {
		return err
	}
	given := []string{"socket=" + strconv.Itoa(h.Socket)}
	if h.Lock > 0 {
		given = append(given, "lock="+strconv.Itoa(h.Lock))
	}
	for _, f := range d.keepFronts() {
		fd, err := f.handOver()
		if err != nil {
			return err
		}
		given = append(given, f.name+"="+strconv.Itoa(fd))
	}
	// First the sessions: otherwise a call that waits for a command would look as if its caller had
	// gone, and the command would be cancelled.
	d.state.Stopping()
	d.talks.Leave()
	d.registry.Leave()
	d.closeRuntimes() // their children would become those of the new program, which does not know them
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if err := d.server.Shutdown(ctx); err != nil {
		d.log.Warn("clients did not read their last answers", "error", err)
	}
	d.closeHook() // its command would become a child of the new program, which does not know it
	d.closeTraces()
	d.closeAudit()
	if fd, err := handOverKeys(d.archive.Keys()); err != nil {
		d.log.Warn("output of ended sessions is lost", "error", err)
	} else if fd > 0 {
		given = append(given, "keys="+strconv.Itoa(fd))
	}
	env := append(os.Environ(), handoverVariable+"="+strings.Join(given, ","))
	if chosen, err := json.Marshal(d.chosen); err == nil && len(d.chosen) > 0 {
		env = append(env, chosenVariable+"="+string(chosen))
	}
	if d.manager != "" {
		env = append(env, notifyVariable+"="+d.manager)
	}
	signal.Ignore(syscall.SIGUSR2) // or a second one would kill the new program before it can handle it
	for _, binary := range []string{r.binary, selfPath} {
		err = unix.Exec(binary, d.args(), env)
		d.log.Error("cannot execute the new program", "binary", binary, "error", err)
	}
	return err
}

// keepStateDir uses the state directory of the program before this one, which has the sessions.
func (d *daemon) keepStateDir() {
	if d.config.Origin("state_dir") != config.OriginDefault {
		return
	}
	now := d.config.StateDir
	d.config.StateDir = place.StateDirOfSelf(now, os.Getenv)
	if d.config.StateDir != now {
		d.log.Warn("the state directory is that of an earlier version; the next daemon finds it only if TRL_STATE_DIR names it", "state_dir", d.config.StateDir, "default", now)
	}
}

// inherited are the descriptors that the program before this one, or a service manager, left open.
type inherited struct {
	socket server.Handover // Socket is 0 for none
	fronts map[string]int  // by the name of the front
	chosen map[string]string
	keys   int // 0 for none
}

// handOverKeys writes the keys of archived sessions into a pipe, which has room for all of them, and
// returns the end that the next program reads; 0 for none. So the keys are never on a disk.
func handOverKeys(keys []byte) (fd int, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	defer w.Close()
	if err := w.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return 0, err
	}
	if _, err := w.Write(keys); err != nil {
		return 0, err
	}
	return unix.Dup(int(r.Fd())) // not closed by exec
}

// takeKeys reads the keys that handOverKeys wrote.
func takeKeys(fd int) []byte {
	if fd <= 0 {
		return nil
	}
	f := os.NewFile(uintptr(fd), "keys")
	defer f.Close()
	keys, _ := io.ReadAll(f)
	return keys
}

// inherit finds the inherited descriptors by the environment, and removes the variables, so that no
// child sees them.
func inherit() (in inherited, err error) {
	if text, ok := os.LookupEnv(handoverVariable); ok {
		os.Unsetenv(handoverVariable)
		if chosen, ok := os.LookupEnv(chosenVariable); ok {
			os.Unsetenv(chosenVariable)
			if err := json.Unmarshal([]byte(chosen), &in.chosen); err != nil {
				return in, fmt.Errorf("%s: %w", chosenVariable, err)
			}
		}
		in.fronts = map[string]int{}
		for _, entry := range strings.Split(text, ",") {
			name, value, _ := strings.Cut(entry, "=")
			fd, err := strconv.Atoi(value)
			if err != nil || fd < 3 {
				return in, fmt.Errorf("%s: %q: not a descriptor", handoverVariable, entry)
			}
			switch name {
			case "socket":
				in.socket.Socket = fd
			case "lock":
				in.socket.Lock = fd
			case "keys":
				in.keys = fd
			default:
				in.fronts[name] = fd
			}
		}
		return in, nil
	}
	return fromManager()
}
