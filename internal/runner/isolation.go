package runner

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/isolation"
	"github.com/trl-dev/trl/internal/link"
)

// isolate finds out how to isolate the processes of the session, if the caller wants that. Nothing
// changes that later: every process that the runner starts gets the same isolation.
func (r *Runner) isolate(p link.CreateParams, at *place, program string) (err error) {
	if p.Params.Isolation.IsZero() {
		return nil
	}
	q := isolation.Request{
		Isolation: *p.Params.Isolation, BestEffort: p.Params.IsolationMode == api.LimitsBestEffort, Strict: p.Params.IsolationMode == api.LimitsRequire,
		WorkingDir: at.cwd, Home: cmp.Or(envValue(at.env, "HOME"), "/"), Secrets: slices.Concat(p.Secrets, r.cfg.Secrets), Runner: r.cfg.Program, Start: r.cfg.Start,
		Private: r.cfg.Dir + "/private", Memo: filepath.Join(filepath.Dir(r.cfg.Dir), "isolation"),
	}
	if dir := p.Limits.SpillDir; dir != "" {
		// It is also made for a session that does not use it, which must not see what later ones put there.
		if err = makeOwn(link.PrivateRoot(dir)); err != nil {
			return err
		}
		q.Private = link.PrivateDir(dir, r.cfg.SessionID)
	}
	if p.Params.Kind == api.KindShell && p.Params.Shell != api.NoShell {
		q.Channel = r.cfg.Dir + "/sh"
		if err = os.MkdirAll(q.Channel, 0o700); err != nil {
			return err
		}
	}
	if program != "" {
		q.Programs = []string{program}
	}
	if p.Params.Isolation.Network == api.NetworkAllow {
		if r.network, err = r.newNetwork(p.Params.Isolation.Allow); err != nil {
			return err
		}
		q.Proxy = r.network.listen
	}
	if r.isolation, err = isolation.NewPlan(q); err != nil {
		return err
	}
	at.env = withVariables(at.env, r.isolation.Env)
	if r.network != nil && r.isolation.ProxyAddress != "" {
		at.env = withVariables(at.env, r.network.variables(r.isolation.ProxyAddress, p.Params.Env))
	}
	return nil
}

// makeOwn makes a directory that only this user can use. Other users may be able to write the directory that
// it is in, so it must not be theirs, nor a link.
func makeOwn(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil || !errors.Is(err, os.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return errors.New(dir + " is not a directory of this user alone; remove it, or change spill_dir")
	}
	return nil
}

// isolationInfoLocked returns the isolation for session.info; nil if there is none.
func (r *Runner) isolationInfoLocked() *api.SessionIsolation {
	if r.isolation.Isolation == nil || r.params.Params.Isolation == nil {
		return nil
	}
	report := r.params.Params.Isolation.Report(r.isolation.Report)
	report.Connections = r.network.connections()
	return report
}

// withVariables returns an environment with these variables in place of its own, because of two
// entries with one name programs take the first or the last.
func withVariables(env, variables []string) []string {
	var all []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.ContainsFunc(variables, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			all = append(all, kv)
		}
	}
	return append(all, variables...)
}
