package isolation_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/isolation"
	"github.com/trl-dev/trl/internal/process"
)

// TestUnavailable: without namespaces, a path inside a writable one cannot be protected and there is no
// network allow. A session that requires them is refused, with the reasons; another one reports them.
func TestUnavailable(t *testing.T) {
	isolation.NoNamespaces(true)
	t.Cleanup(func() { isolation.NoNamespaces(false) })
	dir := t.TempDir()
	hooks := filepath.Join(dir, "hooks")
	if err := os.Mkdir(hooks, 0o700); err != nil {
		t.Fatal(err)
	}
	r := isolation.Request{
		Isolation:  api.Isolation{Files: api.FilesWorkspace, Network: api.NetworkAllow, ReadOnly: []string{hooks}},
		WorkingDir: dir, Home: t.TempDir(), Private: filepath.Join(t.TempDir(), "private"),
	}
	_, err := isolation.NewPlan(r)
	e := api.AsError(err)
	reasons, _ := e.Details["aspects"].(map[string]any)
	if e.Code != api.CodeIsolationUnavailable || reasons[api.AspectPaths] == nil || reasons[api.AspectNetwork] == nil {
		t.Errorf("%s: %v, %v", e.Code, err, e.Details)
	}
	if reasons[api.AspectAttributes] != nil {
		t.Error("an aspect is required that is only reported")
	}
	r.BestEffort = true
	plan, err := isolation.NewPlan(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, aspect := range []string{api.AspectPaths, api.AspectNetwork, api.AspectAttributes} {
		if !slices.ContainsFunc(plan.Report.NotEnforced, func(u api.UnenforcedAspect) bool { return u.Aspect == aspect && u.Reason != "" }) {
			t.Errorf("%s is not reported: %+v", aspect, plan.Report.NotEnforced)
		}
	}
}

// TestBeforeScopes: before Linux 6.12, Landlock refuses no signals. The built-in profiles work there, and report
// that, even if the caller repeats their processes. A caller who requires it, or names processes without a profile,
// is refused. Without Landlock, more is missing, but the same holds for signals.
func TestBeforeScopes(t *testing.T) {
	isolation.NoScopes(true)
	t.Cleanup(func() { isolation.NoScopes(false) })
	signals := func(u api.UnenforcedAspect) bool { return u.Aspect == api.AspectSignals && u.Reason != "" }
	reaper := process.NewReaper()
	t.Cleanup(reaper.Close)
	for name, profile := range api.BuiltinIsolation() {
		r := isolation.Request{Isolation: profile, WorkingDir: t.TempDir(), Home: t.TempDir(), Private: filepath.Join(t.TempDir(), "private"), Start: reaper.Start}
		if _, err := isolation.NewPlan(r); !requiresSignals(err) {
			t.Errorf("%+v: %v", profile, err)
		}
		r.Isolation.Profile = name
		plan, err := isolation.NewPlan(r)
		if requiresSignals(err) {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.ContainsFunc(plan.Report.NotEnforced, signals) {
			t.Errorf("%s: %+v", name, plan.Report)
		}
		r.Strict = true
		if _, err := isolation.NewPlan(r); !requiresSignals(err) {
			t.Errorf("%s, required: %v", name, err)
		}
	}
}

// requiresSignals reports whether a plan was refused because signals cannot be refused.
func requiresSignals(err error) bool {
	if err == nil {
		return false
	}
	e := api.AsError(err)
	aspects, _ := e.Details["aspects"].(map[string]any)
	return e.Code == api.CodeIsolationUnavailable && aspects[api.AspectSignals] != nil
}
