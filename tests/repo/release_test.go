package repo_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/trl-dev/trl/api"
)

// TestWorkflowsPinActions: a tag of an action can be moved to other code, a commit cannot.
func TestWorkflowsPinActions(t *testing.T) {
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40} # v[0-9.]+$`)
	found := 0
	sourceFiles(t, func(file string) {
		if !strings.HasPrefix(file, ".github/workflows/") {
			return
		}
		text := read(t, file)
		if !strings.Contains(text, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s: does not begin with the right to read alone", file)
		}
		for i, line := range strings.Split(text, "\n") {
			if _, action, ok := strings.Cut(line, "uses: "); ok {
				found++
				if !pinned.MatchString(action) {
					t.Errorf("%s:%d: %s: name the commit, and its version in a comment", file, i+1, action)
				}
			}
		}
	})
	if found == 0 {
		t.Error(".github/workflows: uses no action")
	}
}

// TestPackagesHaveTheLicence: registries take it from the directory of a package.
func TestPackagesHaveTheLicence(t *testing.T) {
	for _, dir := range []string{"sdk/python", "sdk/typescript"} {
		if read(t, path.Join(dir, "LICENSE")) != read(t, "LICENSE") {
			t.Errorf("%s/LICENSE: differs from LICENSE", dir)
		}
	}
}

// TestDashboardsNameMetricsThatExist compares the rules and the dashboard in dist with /metrics.
func TestDashboardsNameMetricsThatExist(t *testing.T) {
	source := read(t, "internal/server/metrics.go")
	for _, file := range []string{"dist/prometheus/alerts.yml", "dist/grafana/trl.json"} {
		text := []byte(read(t, file))
		var parsed map[string]any
		if err := yaml.Unmarshal(text, &parsed); err != nil { // JSON is YAML
			t.Errorf("%s: %s", file, err)
		}
		names := regexp.MustCompile(`\b(?:trl|process)_[a-z_]+`).FindAllString(string(text), -1)
		for _, name := range names {
			if !strings.Contains(source, `"`+name+`"`) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		if len(names) < 5 {
			t.Errorf("%s: names %d metrics", file, len(names))
		}
		for _, m := range regexp.MustCompile(`code=~?\\?"([A-Z_|]+)`).FindAllStringSubmatch(string(text), -1) {
			for code := range strings.SplitSeq(m[1], "|") {
				if code != "OK" && !slices.ContainsFunc(api.Codes, func(c api.CodeInfo) bool { return string(c.Code) == code }) {
					t.Errorf("%s: there is no code %s", file, code)
				}
			}
		}
	}
}
