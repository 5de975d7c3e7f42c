package ssh

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes/remote"
)

// name is the name of the runtime in records.
const name = "ssh"

// maxSocketPath is the longest path of a control socket: macOS allows 103 bytes for an address, and
// ssh makes the socket under a temporary name that has 17 bytes more.
const maxSocketPath = 86

// Config configures a Driver.
type Config struct {
	// Dir is the private directory of the control sockets. No other daemon uses it.
	Dir string
	// Spawn starts a child of this process, and Forget is called when it has been reaped. See
	// host.Runtime.
	Spawn  func(process.Spec) (*process.Process, error)
	Forget func(pid int)
	// Environ is the environment of the daemon, in the form of os.Environ.
	Environ []string
	Logger  *slog.Logger
}

// Driver opens sessions on other machines. It is safe for concurrent use.
//
// Goroutines: those of its masters and programs; Close waits for them.
type Driver struct {
	dir     string
	spawn   func(process.Spec) (*process.Process, error)
	forget  func(pid int)
	environ []string // of ssh
	sent    []string // variables that SendEnv may choose from
	log     *slog.Logger

	tasks sync.WaitGroup

	mu          sync.Mutex // taken after connection.mu
	closed      bool       // guarded by mu
	program     string     // guarded by mu; the path of ssh, empty until it was looked for
	connections map[string]*connection
	live        map[*master]bool // guarded by mu
}

var _ remote.Driver = (*Driver)(nil)

// New makes a Driver, and begins to end the shared connections that an earlier daemon left in the
// directory.
func New(c Config) *Driver {
	d := &Driver{
		dir: c.Dir, spawn: c.Spawn, forget: c.Forget, environ: environOf(c.Environ), sent: withoutOurs(c.Environ), log: c.Logger,
		connections: map[string]*connection{}, live: map[*master]bool{},
	}
	if older, _ := filepath.Glob(filepath.Join(d.dir, "*")); len(older) > 0 {
		d.tasks.Go(func() { endMasters(older) })
	}
	return d
}

// endMasters ends the masters of an earlier daemon that was killed, or replaced by exec.
func endMasters(sockets []string) {
	for _, path := range sockets {
		if ctl, err := dialControl(path, time.Now().Add(time.Second)); err == nil {
			_ = ctl.terminate()
			ctl.close()
		}
		_ = os.Remove(path)
	}
}

// withoutOurs returns the environment without the variables of TRL.
func withoutOurs(environ []string) []string {
	var list []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "TRL_") && !strings.HasPrefix(kv, "LISTEN_") && !strings.HasPrefix(kv, "NOTIFY_SOCKET=") {
			list = append(list, kv)
		}
	}
	return list
}

// environOf returns the environment of ssh. It may start programs of the user, such as ProxyCommand,
// so it gets what the daemon has, but no way to ask for a password.
func environOf(environ []string) []string {
	var list []string
	for _, kv := range withoutOurs(environ) {
		switch key, _, _ := strings.Cut(kv, "="); key {
		case "DISPLAY", "WAYLAND_DISPLAY", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "LC_ALL":
		default:
			list = append(list, kv)
		}
	}
	// reasons knows the messages in English.
	return append(list, "SSH_ASKPASS_REQUIRE=never", "LC_ALL=C", process.HelperMark)
}

// Name returns "ssh".
func (d *Driver) Name() string { return name }

// Kinds returns the one kind.
func (d *Driver) Kinds() []api.PlaceKind { return []api.PlaceKind{api.PlaceSSH} }

// Open connects to the machine.
func (d *Driver) Open(ctx context.Context, o remote.Opening) (remote.Site, error) {
	t, err := newTarget(o.Target)
	if err != nil {
		return nil, err
	}
	c := d.connection(t)
	c.mu.Lock()
	known := len(c.masters) > 0
	c.mu.Unlock()
	if !known {
		o.Progress(api.PlaceProgress{Step: "start", Message: "connecting to " + t.Destination})
	}
	m, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	c.release(m)
	return &site{c: c}, nil
}

// Restore returns the machine of a record.
func (d *Driver) Restore(text json.RawMessage) (remote.Site, error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("ssh: record: %w", err)
	}
	if problem := badDestination(r.Destination); problem != "" {
		return nil, fmt.Errorf("ssh: record: destination %q: %s", r.Destination, problem)
	}
	return &site{c: d.connection(r.target), facts: r.facts}, nil
}

// Sweep has nothing to remove: the driver makes nothing on other machines but the cached runner.
func (d *Driver) Sweep(context.Context, string, func(string) bool) ([]string, error) {
	return nil, nil
}

// Close ends the shared connections and waits for their end.
func (d *Driver) Close() {
	d.mu.Lock()
	d.closed = true
	for m := range d.live {
		m.end()
	}
	d.mu.Unlock()
	// ssh ends at SIGTERM unless it waits for a name server or a token.
	kill := time.AfterFunc(2*time.Second, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for m := range d.live {
			_ = m.proc.Signal(syscall.SIGKILL)
		}
	})
	d.tasks.Wait()
	kill.Stop()
	_ = os.Remove(d.dir)
}

// task runs f in a goroutine that Close waits for.
func (d *Driver) task(f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return api.ErrDaemonEnding
	}
	d.tasks.Go(f)
	return nil
}

// connection returns the connection to a target.
func (d *Driver) connection(t target) *connection {
	key := t.key()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.connections[key]
	if c == nil {
		c = &connection{d: d, t: t}
		d.connections[key] = c
	}
	return c
}

// findLocked finds ssh, once.
func (d *Driver) findLocked() error {
	if d.program != "" {
		return nil
	}
	path := ""
	for _, kv := range d.environ {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range append(filepath.SplitList(path), "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin") {
		file := filepath.Join(dir, "ssh")
		if info, err := os.Stat(file); err == nil && filepath.IsAbs(file) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			d.program = file
			return nil
		}
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "ssh: there is no program ssh on the PATH of the daemon; install OpenSSH")
}

// socket returns a path for the control socket of another master.
func (d *Driver) socket(t target) (string, error) {
	path := filepath.Join(d.dir, t.key()+"-"+rand.Text()[:8])
	if len(path) > maxSocketPath {
		return "", api.Errorf(api.CodeRuntimeUnavailable, "ssh: %s: is too long for a socket; choose a runtime_dir with a shorter path", path)
	}
	return path, nil
}
