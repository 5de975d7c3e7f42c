// Package isolation turns the isolation that a caller wants into what this kernel can enforce, and
// reports what that is.
//
// There are three levels, and the first one that works is used. Root has namespaces of its own kind. Other
// users have them inside a user namespace, where the system allows that. Without namespaces, Landlock and
// seccomp are left, which every user has.
package isolation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/confine"
	"github.com/trl-dev/trl/internal/process"
)

// The mechanisms, as the API names them.
const (
	mechanismLandlock = "landlock"
	mechanismMount    = "mount-namespace"
	mechanismNet      = "network-namespace"
	mechanismProc     = "proc"
	mechanismSeccomp  = "seccomp"
	mechanismNoNew    = "no-new-privs"
	mechanismCaps     = "capabilities"
	mechanismProxy    = "proxy"
	mechanismSandbox  = "sandbox-exec"
)

// Request is the isolation that a session wants, and its surroundings.
type Request struct {
	Isolation api.Isolation
	// BestEffort says that the session is created even if parts of its isolation cannot be
	// enforced. Strict says that it needs the part signals too, which a built-in profile does
	// not require otherwise.
	BestEffort, Strict bool
	// WorkingDir is the directory of the session, and Home that of the user.
	WorkingDir, Home string
	// Channel is the directory that a shell shares with the runner; empty for none.
	Channel string
	// Private is a directory for the temporary files of the session, made if it is needed.
	Private string
	// Secrets are files and directories that no session may read, if they exist.
	Secrets []string
	// Runner is the program of the runner in another place, which the daemon starts there without isolation.
	// No session may read or replace it, where the kernel can express that; its directory may be writable.
	Runner string
	// Programs are files that must be readable, because they are started.
	Programs []string
	// Memo is where to remember that namespaces work, so that the next session need not try them;
	// empty for nowhere. Forget removes that.
	Memo string
	// Proxy opens the listener of the session's proxy on the loopback of the place. It is called only for
	// a session with network allow that can have no network of its own.
	Proxy func() (port int, err error)
	// Start starts a process.
	Start func(process.Spec) (*process.Process, error)
}

// Plan is the way in which isolation is enforced.
type Plan struct {
	Isolation *confine.Isolation
	Report    api.IsolationReport
	// Env has variables for the processes, as KEY=VALUE.
	Env []string
	// ProxyAddress is where the processes find the proxy; empty without one.
	ProxyAddress string

	memo string // the file that says that the namespaces work
}

// Forget makes the next plan try namespaces again. It is called when a process could not start.
func (p Plan) Forget() {
	if p.memo != "" {
		_ = os.Remove(p.memo)
	}
}

// optional are the aspects that are reported, but never required: what they protect is less than the
// contents of files and the life of processes.
var optional = []string{api.AspectReplaced, api.AspectTmp, api.AspectAttributes, api.AspectProcessList}

// requires reports whether the session must not go on without an aspect. A caller who names a built-in
// profile wants what the kernel has of processes: own, so that the profile works before Linux 6.12 too.
func (r *Request) requires(aspect string) bool {
	if _, builtin := api.BuiltinIsolation()[r.Isolation.Profile]; aspect == api.AspectSignals && builtin {
		return r.Strict
	}
	return !slices.Contains(optional, aspect)
}

// unavailable returns the error of required isolation that cannot be enforced; nil for none.
func (r *Request) unavailable(p Plan) error {
	var first *api.UnenforcedAspect
	reasons := map[string]any{}
	for i, u := range p.Report.NotEnforced {
		if !r.requires(u.Aspect) {
			continue
		}
		if reasons[u.Aspect] = u.Reason; first == nil {
			first = &p.Report.NotEnforced[i]
		}
	}
	if first == nil {
		return nil
	}
	e := api.Errorf(api.CodeIsolationUnavailable, "isolation of %s cannot be enforced: %s", first.Aspect, first.Reason)
	e.Details = map[string]any{"aspects": reasons}
	return e
}

func (p *Plan) enforced(aspect string, mechanisms ...string) {
	p.Report.Enforced = append(p.Report.Enforced, api.EnforcedAspect{Aspect: aspect, Mechanisms: mechanisms})
}

func (p *Plan) missing(aspect, reason string) {
	p.Report.NotEnforced = append(p.Report.NotEnforced, api.UnenforcedAspect{Aspect: aspect, Reason: reason})
}

// paths are the real paths of a request.
type paths struct {
	writable, readable, hidden, readOnly []string
	// secrets are paths inside those that are hidden although the request does not name them.
	secrets []string
	// links are paths of the request that lead elsewhere.
	links map[string]string
}

// limited reports whether the request is about files.
func (r *Request) limited() bool {
	return r.Isolation.Files == api.FilesWorkspace || r.Isolation.Files == api.FilesReadOnly
}

// homeSecrets are hidden, unless the request names them, where the home is not hidden as a whole.
var homeSecrets = []string{
	".ssh", ".gnupg", ".docker", ".kube", ".aws", ".azure", ".netrc", ".git-credentials", ".config/gcloud", ".config/gh", ".config/trl",
	".local/state/trl", ".password-store", ".npmrc", ".pypirc", ".cargo/credentials.toml", ".bash_history", ".zsh_history",
}

// resolve returns the real paths of the request, and makes the channel one.
func (r *Request) resolve() (p paths, err error) {
	p.links = map[string]string{}
	list := func(names []string) (real []string) {
		for _, name := range names {
			name = r.expand(name)
			to, err := filepath.EvalSymlinks(name)
			if err != nil || name == "." {
				continue // what does not exist
			}
			if to != name {
				p.links[name] = to
			}
			real = append(real, to)
		}
		return real
	}
	for _, real := range list([]string{r.Channel}) {
		r.Channel = real
	}
	i := r.Isolation
	dirs := list([]string{r.WorkingDir})
	if len(dirs) == 0 {
		return p, api.InvalidParam("working_dir", "%q is not a directory", r.WorkingDir)
	}
	home, _ := filepath.EvalSymlinks(r.Home)
	daemon := realPaths(r.Secrets)
	for _, private := range append([]string{home}, daemon...) {
		if private != "" && private != "/" && inside(private, dirs[0]) {
			return p, api.InvalidParam("working_dir", "%q contains %q, which isolation hides; begin in a directory below, or list the paths in isolation.writable", r.WorkingDir, private)
		}
	}
	p.writable, p.readable = list(i.Writable), list(i.Readable)
	for _, check := range []struct {
		field string
		paths []string
	}{{"working_dir", dirs}, {"isolation.writable", p.writable}, {"isolation.readable", p.readable}} {
		for _, path := range check.paths {
			if err = daemonPath(check.field, path, daemon); err != nil {
				return p, err
			}
		}
	}
	p.readable = append(p.readable, list(r.Programs)...)
	if i.Files == api.FilesWorkspace {
		p.writable = append(p.writable, dirs...)
	} else {
		p.readable = append(p.readable, dirs...)
	}
	p.hidden, p.readOnly = list(i.Hidden), list(i.ReadOnly)
	for _, check := range []struct {
		field string
		names []string
	}{{"isolation.hidden", i.Hidden}, {"isolation.read_only", i.ReadOnly}} {
		for _, name := range check.names {
			if _, err := os.Stat(r.expand(name)); err != nil {
				return p, api.InvalidParam(check.field, "%q does not exist, so it cannot be protected; make it, or list the directory that it will be in", name)
			}
		}
	}
	// A process that can write there could replace what the runner and the daemon use.
	for _, w := range p.writable {
		for _, s := range append([]string{r.Channel}, daemon...) {
			if s != "" && inside(s, w) {
				return p, api.InvalidParam("isolation.writable", "%q contains %q, which belongs to the daemon", w, s)
			}
		}
	}
	granted := slices.Concat(p.writable, p.readable)
	secrets := slices.Concat(daemon, realPaths([]string{r.Runner}))
	if home != "" {
		for _, name := range homeSecrets {
			secrets = append(secrets, realPaths([]string{filepath.Join(home, name)})...)
		}
	}
	for _, s := range secrets {
		if slices.ContainsFunc(granted, func(g string) bool { return g != s && inside(s, g) }) && !slices.Contains(granted, s) {
			p.secrets = append(p.secrets, s)
		}
	}
	return p, nil
}

// daemonPath returns an error if a path of a request is one of the daemon.
func daemonPath(field, path string, daemon []string) error {
	for _, s := range daemon {
		if inside(path, s) {
			return api.InvalidParam(field, "%q is inside %q, which belongs to the daemon; name another path", path, s)
		}
	}
	return nil
}

// realPaths returns the real paths of those that exist.
func realPaths(names []string) (list []string) {
	for _, name := range names {
		if to, err := filepath.EvalSymlinks(name); err == nil && name != "" {
			list = append(list, to)
		}
	}
	return list
}

// expand returns an absolute path.
func (r *Request) expand(name string) string {
	if name == "~" || strings.HasPrefix(name, "~/") {
		name = r.Home + name[1:]
	}
	return filepath.Clean(name)
}

// inside reports whether path is dir, or is below it.
func inside(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// between returns the directories below root that contain path, the outermost first.
func between(root, path string) (dirs []string) {
	for d := filepath.Dir(path); d != root && inside(d, root); d = filepath.Dir(d) {
		dirs = append([]string{d}, dirs...)
	}
	return dirs
}
