package repo_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// prometheus returns the path of a program of Prometheus.
func prometheus(t *testing.T, program string) string {
	t.Helper()
	file := filepath.Join(testkit.Must(os.UserCacheDir())(t), "trl-test/prometheus/usr/bin", program)
	if _, err := os.Stat(file); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: %s: %s is not here (tests/setup.sh gets it): Prometheus does not read dist and docs/telemetry.md\n", t.Name(), program)
		t.SkipNow()
	}
	return file
}

// alertTests is the part of testdata/alerts_test.yml that is compared with the rules and with a daemon.
type alertTests struct {
	Tests []struct {
		Name        string
		InputSeries []struct{ Series string } `json:"input_series"`
		RuleTests   []struct {
			Alert    string `json:"alertname"`
			Expected []struct {
				Labels map[string]string `json:"exp_labels"`
			} `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	}
}

// TestAlertsFire lets promtool play the alerts: each has a series that fires it and one that does not.
func TestAlertsFire(t *testing.T) {
	const file = "tests/repo/testdata/alerts_test.yml"
	var tests alertTests
	var rules struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	if err := cmp.Or(yaml.Unmarshal([]byte(read(t, file)), &tests), yaml.Unmarshal([]byte(read(t, "dist/prometheus/alerts.yml")), &rules)); err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, r := range test.RuleTests {
			for _, e := range r.Expected {
				fires[r.Alert] = fires[r.Alert] || e.Labels["instance"] == "bad"
				if e.Labels["instance"] != "bad" || r.Alert != test.Name {
					t.Errorf("%s: %s: expects %s of the instance %q", file, test.Name, r.Alert, e.Labels["instance"])
				}
			}
		}
		for _, s := range test.InputSeries {
			quiet[test.Name] = quiet[test.Name] || strings.Contains(s.Series, `instance="good"`)
		}
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if !fires[rule.Alert] || !quiet[rule.Alert] {
				t.Errorf("%s: %s: fires: %v, has a series that does not fire it: %v", file, rule.Alert, fires[rule.Alert], quiet[rule.Alert])
			}
		}
	}
	if out, err := exec.Command(prometheus(t, "promtool"), "test", "rules", "testdata/alerts_test.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var (
	series = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? ?`)
	label  = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
)

// seriesOf returns the names of the labels of a series, sorted, and adds their values to those of each label.
func seriesOf(text string, values map[string]map[string]bool) (name, labels string) {
	m := series.FindStringSubmatch(text)
	var names []string
	for _, l := range label.FindAllStringSubmatch(m[2], -1) {
		if l[1] == "job" || l[1] == "instance" { // of Prometheus
			continue
		}
		names = append(names, l[1])
		if values[l[1]] == nil {
			values[l[1]] = map[string]bool{}
		}
		values[l[1]][l[2]] = true
	}
	slices.Sort(names)
	return m[1], strings.Join(names, ",")
}

// TestAlertsAreTestedWithRealSeries compares the series of the tests above with those of a daemon.
func TestAlertsAreTestedWithRealSeries(t *testing.T) {
	needTools(t)
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0", "--trace-endpoint", "http://127.0.0.1:9"))
	s := testkit.Must(d.Client(t).SessionCreate(t.Context(), api.SessionCreateParams{}))(t)
	testkit.Must(d.Client(t).ExecRun(t.Context(), api.ExecParams{SessionID: s.SessionID, Command: "true"}))(t)
	address, token := d.HTTP(t)
	get(t, address+"/v1/session.list", "wrong")
	page := get(t, address+"/metrics", token)

	shapes, values := map[string]string{}, map[string]map[string]bool{}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "#") {
			name, labels := seriesOf(line, values)
			shapes[name] = labels
		}
	}
	var tests alertTests
	if err := yaml.Unmarshal([]byte(read(t, "tests/repo/testdata/alerts_test.yml")), &tests); err != nil {
		t.Fatal(err)
	}
	used := map[string]map[string]bool{}
	for _, test := range tests.Tests {
		for _, s := range test.InputSeries {
			name, labels := seriesOf(s.Series, used)
			shape, exported := shapes[name]
			switch {
			case name == "up": // of Prometheus
			case !exported && strings.HasPrefix(name, "trl_session_") && strings.Contains(page, "# TYPE "+name+" "):
				// This machine has no cgroups for sessions.
			case !exported || shape != labels:
				t.Errorf("%s: %s: the daemon exports %q, %v", test.Name, s.Series, shape, exported)
			}
		}
	}
	for name := range used {
		for value := range used[name] {
			switch _, isMethod := api.FindMethod(value); {
			case values[name][value], name == "session_id", name == "method" && isMethod:
			case name == "code" && slices.ContainsFunc(api.Codes, func(c api.CodeInfo) bool { return string(c.Code) == value }):
			default:
				t.Errorf("the daemon exports no label %s=%q", name, value)
			}
		}
	}
}

// get returns the body of a page.
func get(t *testing.T, address, token string) string {
	t.Helper()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), "GET", address, nil))(t)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Close = true
	resp := testkit.Must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	return string(testkit.Must(io.ReadAll(resp.Body))(t))
}

// TestPrometheusScrapesTheDaemon runs Prometheus with the configuration of the page and with the alerts. It
// scrapes every second instead of every minute.
func TestPrometheusScrapesTheDaemon(t *testing.T) {
	needTools(t)
	program := prometheus(t, "prometheus")
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0"))
	address, token := d.HTTP(t)
	dir := t.TempDir()
	tokenFile, config := filepath.Join(dir, "token"), filepath.Join(dir, "prometheus.yml")
	text := trltest.OneSnippet(t, "docs/telemetry.md", "## Metrics", "yaml")
	replaced := strings.NewReplacer("/etc/prometheus/trl-token", tokenFile, "127.0.0.1:7330", strings.TrimPrefix(address, "http://")).Replace(text)
	if strings.Count(replaced, tokenFile) != 1 || replaced == text {
		t.Errorf("the page has another token or target:\n%s", text)
	}
	alerts := testkit.Must(filepath.Abs(filepath.Join(root, "dist/prometheus/alerts.yml")))(t)
	text = fmt.Sprintf("global: {scrape_interval: 1s}\nrule_files: [%q]\n%s", alerts, replaced)
	for name, content := range map[string]string{tokenFile: token, config: text} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t) // Prometheus does not say which port it took
	at := listener.Addr().String()
	listener.Close()
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at, "--log.level=error")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus: %s", stderr.String())
		}
	}()
	for _, query := range []string{`up{job="trl"} == 1`, `trl_sessions{job="trl",state="idle"}`, `process_open_fds{job="trl"} > 0`} {
		testkit.Eventually(t, "Prometheus has "+query, func() bool {
			resp, err := http.Get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(query))
			if err != nil { // it is starting
				return false
			}
			defer resp.Body.Close()
			var answer struct {
				Data struct{ Result []json.RawMessage }
			}
			return json.NewDecoder(resp.Body).Decode(&answer) == nil && len(answer.Data.Result) > 0
		})
	}
}
