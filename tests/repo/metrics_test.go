package repo_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

var metricName = regexp.MustCompile(`\b(?:trl|process|go)_[a-z_]+[a-z]\b`)

// metricFamilies returns the families of /metrics: the words that look like one in the packages that
// write to its page.
func metricFamilies(t *testing.T) map[string]bool {
	names := map[string]bool{}
	sourceFiles(t, func(file string) {
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") || !strings.HasPrefix(file, "internal/") {
			return
		}
		if text := read(t, file); strings.Contains(text, "metrics.Page") {
			for _, m := range regexp.MustCompile(`"((?:trl|process|go)_[a-z_]+)", "(?:gauge|counter|histogram)"`).FindAllStringSubmatch(text, -1) {
				names[m[1]] = true
			}
		}
	})
	if len(names) < 20 {
		t.Errorf("found %d metrics", len(names))
	}
	return names
}

// TestMetricsAreDocumented compares docs/telemetry.md with /metrics.
func TestMetricsAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(read(t, "docs/telemetry.md"), -1) {
		if metricName.MatchString(m[1]) {
			documented[m[1]] = true
		}
	}
	families := metricFamilies(t)
	for name := range families {
		if !documented[name] {
			t.Errorf("docs/telemetry.md: has no row for %s", name)
		}
	}
	for name := range documented {
		if !families[name] {
			t.Errorf("docs/telemetry.md: there is no metric %s", name)
		}
	}
}

// TestDashboardsNameMetricsThatExist compares the rules and the dashboard in dist with /metrics.
func TestDashboardsNameMetricsThatExist(t *testing.T) {
	families := metricFamilies(t)
	for _, file := range []string{"dist/prometheus/alerts.yml", "dist/grafana/trl.json"} {
		text := read(t, file)
		var parsed map[string]any
		if err := yaml.Unmarshal([]byte(text), &parsed); err != nil { // JSON is YAML
			t.Errorf("%s: %s", file, err)
		}
		names := metricName.FindAllString(text, -1)
		for _, name := range names {
			if !families[strings.TrimSuffix(name, "_bucket")] {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		if len(names) < 5 {
			t.Errorf("%s: names %d metrics", file, len(names))
		}
		for _, m := range regexp.MustCompile(`code=~?\\?"([A-Z_|]+)`).FindAllStringSubmatch(text, -1) {
			for code := range strings.SplitSeq(m[1], "|") {
				if code != "OK" && !slices.ContainsFunc(api.Codes, func(c api.CodeInfo) bool { return string(c.Code) == code }) {
					t.Errorf("%s: there is no code %s", file, code)
				}
			}
		}
	}
}

// TestPrometheusReadsTheRules lets promtool read the alerts, and the queries of the dashboard as rules.
func TestPrometheusReadsTheRules(t *testing.T) {
	promtool := prometheus(t, "promtool")
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "dist/grafana/trl.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			// Grafana replaces what begins with $.
			rules = append(rules, rule{fmt.Sprint("query_", len(rules)), strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
		}
	}
	if len(rules) < 20 {
		t.Errorf("the dashboard has %d queries", len(rules))
	}
	queries := filepath.Join(t.TempDir(), "queries.yml")
	text := testkit.Must(yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}))(t)
	if err := os.WriteFile(queries, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../../dist/prometheus/alerts.yml", queries} {
		if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}
