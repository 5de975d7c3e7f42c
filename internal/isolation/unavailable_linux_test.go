package isolation_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/isolation"
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
