package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/version"
)

// shellCheckTimeout bounds the check of one shell. It exceeds the time that a shell may take to
// start.
const shellCheckTimeout = 15 * time.Second

// diagnose checks everything that TRL depends on.
func (a *app) diagnose(cmd *cobra.Command) *diagnosis {
	d := &diagnosis{}
	cfg, err := a.settings(cmd)
	if err != nil {
		d.add("Settings", "configuration", verdictBad, err.Error())
		return d
	}
	d.settings(cfg)
	c, err := a.connect(cmd)
	d.places(cfg)
	if err != nil {
		d.add("Daemon", "daemon", verdictBad, err.Error())
		d.limits(nil)
		d.platform("", api.SystemInfoResult{})
		d.shellsOnly()
		return d
	}
	defer c.Close()
	info := d.daemon(cmd.Context(), c)
	d.runtimes(cmd.Context(), c)
	d.limits(info.Limits)
	at := len(d.findings)
	kill := d.shells(cmd.Context(), c)
	shells := append([]finding(nil), d.findings[at:]...)
	d.findings = d.findings[:at]
	d.platform(kill, info)
	d.enforcement(cmd.Context(), c)
	d.findings = append(d.findings, shells...)
	return d
}

func (d *diagnosis) settings(cfg config.Config) {
	changed := 0
	for _, e := range cfg.Entries() {
		if e.Origin != config.OriginDefault {
			changed++
		}
	}
	d.add("Settings", "configuration", verdictOK, ui.Plural(changed, "setting differs", "settings differ")+" from the default (trl config)")
	for _, note := range cfg.Notes() {
		d.add("Settings", "environment", verdictNote, note)
	}
}

// places checks the socket and the directories. A daemon that starts creates them first.
func (d *diagnosis) places(cfg config.Config) {
	const section = "Places"
	d.check(section, "socket", cfg.Socket, checkSocket(cfg.Socket))
	d.check(section, "state", cfg.StateDir, checkDir(cfg.StateDir))
	err := checkDir(cfg.RuntimeDir)
	if err == nil && !inMemory(cfg.RuntimeDir) {
		d.add(section, "runtime", verdictNote, cfg.RuntimeDir+" is on a disk; set runtime_dir to a directory in memory")
		return
	}
	d.check(section, "runtime", cfg.RuntimeDir, err)
}

// checkSocket returns an error if other users could use the socket.
func checkSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // no daemon runs, which another check reports
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: is not a socket", path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s: has mode %04o, must be 0600", path, info.Mode().Perm())
	}
	return owned(path, info)
}

// checkDir returns an error if a directory cannot be written or other users may enter it. A
// directory that does not exist must be possible to create.
func checkDir(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		parent := filepath.Dir(path)
		for {
			if _, err := os.Stat(parent); err == nil || parent == "/" {
				break
			}
			parent = filepath.Dir(parent)
		}
		if err := unix.Access(parent, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("%s: cannot be made below %s: %w", path, parent, err)
		}
		return nil
	}
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s: is not a directory", path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s: has mode %04o, must be 0700", path, info.Mode().Perm())
	}
	if err := unix.Access(path, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s: cannot be written: %w", path, err)
	}
	return owned(path, info)
}

func owned(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s: belongs to uid %d, not to %d", path, st.Uid, os.Getuid())
	}
	return nil
}

func (d *diagnosis) daemon(ctx context.Context, c *client.Client) api.SystemInfoResult {
	const section = "Daemon"
	info, err := c.SystemInfo(ctx, api.SystemInfoParams{})
	if err != nil {
		d.add(section, "daemon", verdictBad, err.Error())
		return info
	}
	stats, err := c.SystemStats(ctx, api.SystemStatsParams{})
	d.check(section, "daemon", fmt.Sprintf("pid %d, up %s, %s, %s, %s resident", info.PID,
		ui.Span(time.Duration(stats.UptimeS)*time.Second), ui.Plural(stats.ActiveSessions, "session", "sessions"),
		ui.Plural(stats.OpenFDs, "descriptor", "descriptors"), ui.BytesText(float64(stats.MemoryRSSBytes))), err)
	if info.Version != version.Version {
		d.add(section, "version", verdictNote, fmt.Sprintf("the daemon is %s, trl is %s; trl stop ends the old one, with its sessions", info.Version, version.Version))
	} else {
		d.add(section, "version", verdictOK, fmt.Sprintf("%s, api %d", info.Version, info.APIVersion))
	}
	return info
}

// runtimes checks the places that the configuration names, at the same time.
func (d *diagnosis) runtimes(ctx context.Context, c *client.Client) {
	const section = "Runtimes"
	list, err := c.RuntimeList(ctx, api.RuntimeListParams{})
	if err != nil {
		d.add(section, "places", verdictNote, err.Error())
		return
	}
	words := checkable(list)
	findings := make([]finding, len(words))
	var all sync.WaitGroup
	for i, word := range words {
		all.Go(func() {
			r, err := c.RuntimeCheck(ctx, api.RuntimeCheckParams{Runtime: word})
			switch {
			case err != nil:
				findings[i] = finding{section, word, verdictBad, err.Error()}
			case !r.Reachable:
				findings[i] = finding{section, word, verdictBad, r.Why}
			default:
				about := []string{string(r.Kind), platformText(r), r.Engine, latencyText(r), strings.Join(r.Enforced, ", ")}
				findings[i] = finding{section, word, verdictOK, strings.Join(slices.DeleteFunc(about, func(s string) bool { return s == "" }), ", ")}
			}
		})
	}
	all.Wait()
	d.findings = append(d.findings, findings...)
}

// limits reports the limits of the system and the daemon.
func (d *diagnosis) limits(daemon map[string]float64) {
	const section = "Limits"
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		d.add(section, "open files", verdictBad, err.Error())
	} else {
		verdict, detail := verdictOK, limitText(uint64(files.Cur))+" (ulimit -n)"
		// A session costs the daemon a few descriptors; the rest is for connections.
		if need := 4*daemon["max_sessions"] + 64; float64(files.Cur) < need {
			verdict, detail = verdictNote, detail+fmt.Sprintf("; %.0f sessions may need %.0f", daemon["max_sessions"], need)
		}
		d.add(section, "open files", verdict, detail)
	}
	if n, err := processLimit(); err == nil {
		d.add(section, "processes", verdictOK, limitText(n)+" (ulimit -u)")
	}
	if daemon == nil {
		return
	}
	d.add(section, "sessions", verdictOK, fmt.Sprintf("%.0f (max_sessions)", daemon["max_sessions"]))
	d.add(section, "idle session", verdictOK, endsAfter(daemon["idle_timeout_s"])+" (idle_timeout_s)")
	d.add(section, "any session", verdictOK, endsAfter(daemon["lifetime_s"])+" (lifetime_s)")
	d.add(section, "command", verdictOK, "timeout "+ui.Seconds(daemon["default_timeout_s"])+" (default_timeout_s), grace "+ui.Seconds(daemon["kill_grace_s"])+" (kill_grace_s)")
	d.add(section, "output kept", verdictOK, ui.BytesText(daemon["output_bytes"])+" a stream (output_bytes), "+ui.BytesText(daemon["session_output_bytes"])+" a session (session_output_bytes)")
}

func endsAfter(s float64) string {
	if s == 0 {
		return "never ends by itself"
	}
	return "ends after " + ui.Seconds(s)
}

func limitText(n uint64) string {
	if n >= 1<<62 {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// shells tries a real session with every shell. It returns how sessions enforce a complete kill.
func (d *diagnosis) shells(ctx context.Context, c *client.Client) (enforcement string) {
	for _, s := range findShells() {
		took, details, err := trySession(ctx, c, s)
		if err == nil {
			enforcement = details.Enforcement
		}
		d.check("Shells", s.name, fmt.Sprintf("%s, %s, session and command in %s", s.path, s.version(), ui.Span(took)), err)
	}
	return enforcement
}

// enforcement reports which limits and which isolation of sessions are in force here.
func (d *diagnosis) enforcement(ctx context.Context, c *client.Client) {
	const limits, isolation = "Limits of sessions", "Isolation of sessions"
	ctx, cancel := context.WithTimeout(ctx, shellCheckTimeout)
	defer cancel()
	info, err := c.SystemInfo(ctx, api.SystemInfoParams{Enforcement: true})
	if err == nil && info.Enforcement == nil {
		err = errors.New("this daemon does not report what it can enforce; trl upgrade replaces it")
	}
	if err != nil {
		d.add(limits, "session", verdictNote, err.Error())
		return
	}
	for _, e := range info.Enforcement.Limits.Enforced {
		verdict := verdictOK
		if e.Mechanism == api.MechanismWeak {
			verdict = verdictNote
		}
		d.add(limits, e.Limit, verdict, e.Mechanism)
	}
	for _, u := range info.Enforcement.Limits.NotEnforced {
		d.add(limits, u.Limit, verdictNote, "not enforced: "+u.Reason)
	}
	for _, e := range info.Enforcement.Isolation.Enforced {
		d.add(isolation, e.Aspect, verdictOK, strings.Join(e.Mechanisms, ", "))
	}
	for _, u := range info.Enforcement.Isolation.NotEnforced {
		d.add(isolation, u.Aspect, verdictNote, "not enforced: "+u.Reason)
	}
}

// shellsOnly lists the shells if there is no daemon to try them.
func (d *diagnosis) shellsOnly() {
	for _, s := range findShells() {
		d.add("Shells", s.name, verdictNote, fmt.Sprintf("%s, %s, not tried", s.path, s.version()))
	}
}

// trySession runs one command in a session of that shell.
func trySession(ctx context.Context, c *client.Client, s foundShell) (time.Duration, api.SessionDetails, error) {
	ctx, cancel := context.WithTimeout(ctx, shellCheckTimeout)
	defer cancel()
	var details api.SessionDetails
	began := time.Now()
	info, err := c.SessionCreate(ctx, api.SessionCreateParams{Shell: s.name, WorkingDir: "/", Ephemeral: true})
	if err != nil {
		return 0, details, err
	}
	defer func() { _, _ = c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: info.SessionID, Force: true}) }()
	res, err := c.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: "echo out; echo err >&2; false"})
	took := time.Since(began)
	if err != nil {
		return 0, details, err
	}
	if res.Stdout != "out\n" || res.Stderr != "err\n" || res.ExitCode != 1 {
		return 0, details, fmt.Errorf("%s: a command answered stdout %q, stderr %q, exit %d", s.path, res.Stdout, res.Stderr, res.ExitCode)
	}
	details, err = c.SessionInfo(ctx, api.SessionInfoParams{SessionID: info.SessionID})
	return took, details, err
}
