// Package doctor checks what the daemon depends on: its directories, the places and limits of its
// machine, and real sessions.
package doctor

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

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// checkTimeout bounds the check of one shell, and of what can be enforced. It exceeds the time that a
// shell may take to start.
const checkTimeout = 15 * time.Second

// trialLifetime ends the session of a check whose doctor was killed.
const trialLifetime = 4 * checkTimeout

// Files are the files and directories of a daemon.
type Files struct {
	Socket     string // empty for none
	StateDir   string
	RuntimeDir string
}

// Findings are the results of checks, in order.
type Findings []api.DoctorFinding

// Add appends a finding.
func (f *Findings) Add(section, name, verdict, detail string) {
	*f = append(*f, api.DoctorFinding{Section: section, Name: name, Verdict: verdict, Detail: detail})
}

// Check appends a finding that is good if err is nil.
func (f *Findings) Check(section, name, detail string, err error) {
	if err != nil {
		f.Add(section, name, api.VerdictBad, err.Error())
		return
	}
	f.Add(section, name, api.VerdictOK, detail)
}

// Run makes all checks in the process of the daemon, whose calls are those of s.
func Run(ctx context.Context, s api.Service, files Files) (Findings, error) {
	info, err := s.SystemInfo(ctx, api.SystemInfoParams{})
	if err != nil {
		return nil, err
	}
	var f Findings
	f.files(files)
	f.runtimes(ctx, s)
	f.limits(info.Limits)
	var shells Findings
	kill := ""
	if slices.Contains(info.Runtimes, api.PlaceHost) {
		kill = shells.shells(ctx, s)
	} else {
		shells.Add(sectionShells, "shells", api.VerdictNote, "not tried: the configuration forbids sessions on the host (runtime_kinds)")
	}
	f.platform(kill, info)
	f.enforcement(ctx, s)
	return append(f, shells...), ctx.Err()
}

// Without makes the checks that need no daemon. run runs a program and returns its output.
func Without(files Files, run func(argv []string) string) (f Findings) {
	f.files(files)
	f.limits(nil)
	f.platform("", api.SystemInfoResult{})
	for _, s := range Shells() {
		f.Add(sectionShells, s.Name, api.VerdictNote, fmt.Sprintf("%s, %s, not tried", s.Path, s.Version(run)))
	}
	return f
}

// SectionFiles and SectionLimits are sections after which callers may have findings of their own.
const (
	SectionFiles  = "Places"
	SectionLimits = "Limits"
	sectionShells = "Shells"
)

// files checks the socket and the directories. A daemon that starts creates them first.
func (f *Findings) files(files Files) {
	if files.Socket != "" {
		f.Check(SectionFiles, "socket", files.Socket, checkSocket(files.Socket))
	}
	f.Check(SectionFiles, "state", files.StateDir, checkDir(files.StateDir))
	err := checkDir(files.RuntimeDir)
	if err == nil && !inMemory(files.RuntimeDir) {
		f.Add(SectionFiles, "runtime", api.VerdictNote, files.RuntimeDir+" is on a disk; set runtime_dir to a directory in memory")
		return
	}
	f.Check(SectionFiles, "runtime", files.RuntimeDir, err)
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
			return fmt.Errorf("%s: cannot be created in %s: %w", path, parent, err)
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

// runtimes checks the places that the configuration names, at the same time.
func (f *Findings) runtimes(ctx context.Context, s api.Service) {
	const section = "Runtimes"
	list, err := s.RuntimeList(ctx, api.RuntimeListParams{})
	if err != nil {
		f.Add(section, "places", api.VerdictNote, err.Error())
		return
	}
	words := Checkable(list)
	found := make(Findings, len(words))
	var all sync.WaitGroup
	for i, word := range words {
		all.Go(func() {
			r, err := s.RuntimeCheck(ctx, api.RuntimeCheckParams{Runtime: word})
			switch {
			case err != nil:
				found[i] = api.DoctorFinding{Section: section, Name: word, Verdict: api.VerdictBad, Detail: err.Error()}
			case !r.Reachable:
				found[i] = api.DoctorFinding{Section: section, Name: word, Verdict: api.VerdictBad, Detail: r.Why}
			default:
				about := []string{string(r.Kind), strings.Trim(r.OS+"/"+r.Arch, "/"), r.Engine, latency(r.LatencyMS), strings.Join(r.Enforced, ", ")}
				about = slices.DeleteFunc(about, func(s string) bool { return s == "" })
				found[i] = api.DoctorFinding{Section: section, Name: word, Verdict: api.VerdictOK, Detail: strings.Join(about, ", ")}
			}
		})
	}
	all.Wait()
	*f = append(*f, found...)
}

func latency(ms float64) string {
	if ms == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f ms", ms)
}

// Checkable returns the places that can be checked without an argument: the names of the
// configuration, and the host if it may be used.
func Checkable(list api.RuntimeListResult) []string {
	var words []string
	for _, r := range list.Runtimes {
		if r.Configured || r.Kind == api.PlaceHost && r.Usable {
			words = append(words, r.Runtime)
		}
	}
	return words
}

// limits reports the limits of this process. daemon has those of the daemon's settings; nil for none.
func (f *Findings) limits(daemon map[string]float64) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		f.Add(SectionLimits, "open files", api.VerdictBad, err.Error())
	} else {
		verdict, detail := api.VerdictOK, limitText(uint64(files.Cur))+" (ulimit -n)"
		// A session costs the daemon a few descriptors; the rest is for connections.
		if need := 4*daemon["max_sessions"] + 64; float64(files.Cur) < need {
			verdict, detail = api.VerdictNote, detail+fmt.Sprintf("; %.0f sessions may need %.0f", daemon["max_sessions"], need)
		}
		f.Add(SectionLimits, "open files", verdict, detail)
	}
	if n, err := processLimit(); err == nil {
		f.Add(SectionLimits, "processes", api.VerdictOK, limitText(n)+" (ulimit -u)")
	}
}

// subreaper reports whether runners will be subreapers. Sessions work without that.
func (f *Findings) subreaper(section string) {
	if err := process.SubreaperError(); err != nil {
		f.Add(section, "subreaper", api.VerdictNote, err.Error()+": TRL finds processes by their groups and parents instead")
		return
	}
	f.Add(section, "subreaper", api.VerdictOK, "the runner stays the ancestor of every process of its session")
}

func limitText(n uint64) string {
	if n >= 1<<62 {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// enforcement reports which limits and which isolation of sessions are in force here.
func (f *Findings) enforcement(ctx context.Context, s api.Service) {
	const limits, isolation = "Limits of sessions", "Isolation of sessions"
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	info, err := s.SystemInfo(ctx, api.SystemInfoParams{Enforcement: true})
	if err != nil {
		f.Add(limits, "session", api.VerdictNote, err.Error())
		return
	}
	for _, e := range info.Enforcement.Limits.Enforced {
		verdict := api.VerdictOK
		if e.Mechanism == api.MechanismWeak {
			verdict = api.VerdictNote
		}
		f.Add(limits, e.Limit, verdict, e.Mechanism)
	}
	for _, u := range info.Enforcement.Limits.NotEnforced {
		f.Add(limits, u.Limit, api.VerdictNote, "not enforced: "+u.Reason)
	}
	for _, e := range info.Enforcement.Isolation.Enforced {
		f.Add(isolation, e.Aspect, api.VerdictOK, strings.Join(e.Mechanisms, ", "))
	}
	for _, u := range info.Enforcement.Isolation.NotEnforced {
		f.Add(isolation, u.Aspect, api.VerdictNote, "not enforced: "+u.Reason)
	}
}

// shells tries a real session with every shell. It returns how sessions enforce a complete kill.
func (f *Findings) shells(ctx context.Context, s api.Service) (enforcement string) {
	for _, one := range Shells() {
		if ctx.Err() != nil {
			break
		}
		about, details, err := tryShell(ctx, s, one)
		if err == nil {
			enforcement = details.Enforcement
		}
		f.Check(sectionShells, one.Name, about, err)
	}
	return enforcement
}

// tryShell runs one command in a session of a shell.
func tryShell(ctx context.Context, s api.Service, shell Shell) (about string, details api.SessionDetails, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	began := time.Now()
	lifetime := trialLifetime.Seconds()
	info, err := s.SessionCreate(ctx, api.SessionCreateParams{Runtime: string(api.PlaceHost), Shell: shell.Name, WorkingDir: "/", LifetimeS: &lifetime})
	if err != nil {
		return "", details, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		_, _ = s.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: info.SessionID, Force: true})
	}()
	r, err := s.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: "echo out; echo err >&2; false"})
	took := time.Since(began)
	if err != nil {
		return "", details, err
	}
	if r.Stdout != "out\n" || r.Stderr != "err\n" || r.ExitCode != 1 {
		return "", details, fmt.Errorf("%s: a test command returned stdout %q, stderr %q, exit %d", shell.Path, r.Stdout, r.Stderr, r.ExitCode)
	}
	version := shell.Version(func(argv []string) string {
		r, err := s.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Argv: argv, TimeoutS: new(3.0)})
		if err != nil {
			return ""
		}
		return r.Stdout + r.Stderr
	})
	details, err = s.SessionInfo(ctx, api.SessionInfoParams{SessionID: info.SessionID})
	return fmt.Sprintf("%s, %s, session and command in %s", shell.Path, version, took.Round(time.Millisecond)), details, err
}
