// Package examples_test runs the programs of examples/ with a real daemon, as their READMEs say, and
// compares what they print. Those that need a container, another machine or a cluster are run by
// tests/places, which has them.
package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

const root = "../.."

// elsewhere are the examples that tests/places runs.
var elsewhere = []string{"ci-docker", "kubernetes-batch", "remote-build"}

// example is a folder of examples.
type example struct {
	name     string
	needs    func(t *testing.T) // skips the test where the example cannot run
	replaced []string
}

var here = []example{
	{name: "agents", needs: program("python3"), replaced: []string{
		// The fake agent does what its messages say.
		"Which tests fail?", "ask Bash go test ./...; say Two tests fail.",
		"List the TODOs.", "ask Read TODO.md; say There is one.",
		"Remove build/.", "ask Bash rm -rf build; say I was not allowed to.",
	}},
	{name: "build-stream", needs: program("go")},
	{name: "dev-server", needs: typescript},
	{name: "repl", needs: program("python3")},
	{name: "test-runner", needs: program("python3")},
}

func TestExamples(t *testing.T) {
	bin := t.TempDir()
	if err := os.Symlink(trltest.Binary(t), filepath.Join(bin, "trl")); err != nil {
		t.Fatal(err)
	}
	sdk := testkit.Must(filepath.Abs(filepath.Join(root, "sdk/python/src")))(t)
	path := "PATH=" + bin + ":" + trltest.AgentPath(t)
	for _, e := range here {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			e.needs(t)
			d := trltest.Start(t, trltest.Env(path)) // one each: an example may replace its daemon
			trltest.Example(t, e.name, strings.NewReplacer(e.replaced...),
				path, "PYTHONPATH="+sdk, "PYTHONDONTWRITEBYTECODE=1", "TRL_SOCKET_PATH="+d.Socket, "TRL_STATE_DIR="+d.StateDir, "TRL_CONFIG="+os.DevNull)
		})
	}
}

// TestEveryExampleRuns compares the folders with the tables and with examples/README.md.
func TestEveryExampleRuns(t *testing.T) {
	known := map[string]bool{}
	for _, e := range here {
		known[e.name] = true
	}
	for _, name := range elsewhere {
		known[name] = true
	}
	index := string(testkit.Must(os.ReadFile(filepath.Join(root, "examples/README.md")))(t))
	places := string(testkit.Must(os.ReadFile(filepath.Join(root, "tests/places/places_test.go")))(t))
	for _, entry := range testkit.Must(os.ReadDir(filepath.Join(root, "examples")))(t) {
		name := entry.Name()
		if entry.IsDir() && !known[name] {
			t.Errorf("examples/%s: is not in the table of this test", name)
		}
		if entry.IsDir() && !strings.Contains(index, "| ["+name+"]("+name+"/README.md) |") {
			t.Errorf("examples/README.md: does not list %s", name)
		}
	}
	for _, name := range elsewhere {
		if !strings.Contains(places, fmt.Sprintf("example: %q", name)) {
			t.Errorf("tests/places: does not run the example %s", name)
		}
	}
}

// program skips the test where a program is missing.
func program(name string) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("SKIPPED: %s is not installed", name)
		}
	}
}

// noNetwork is the error of npm without a network.
var noNetwork = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED`)

// typescript builds the TypeScript SDK, which the example links, and skips the test where that cannot be done.
func typescript(t *testing.T) {
	t.Helper()
	program("npm")(t)
	if out, err := exec.Command("node", "-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: Node 20 or newer is not here: %v %s", err, out)
	}
	sdk := filepath.Join(root, "sdk/typescript")
	steps := [][]string{{"exec", "--", "tsc", "-p", "tsconfig.json"}} // without the part for browsers, for time
	locked := testkit.Must(os.Stat(filepath.Join(sdk, "package-lock.json")))(t)
	if installed, err := os.Stat(filepath.Join(sdk, "node_modules/.package-lock.json")); err != nil || installed.ModTime().Before(locked.ModTime()) {
		steps = append([][]string{{"ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1"}}, steps...)
	}
	for _, args := range steps {
		cmd := exec.CommandContext(t.Context(), "npm", args...)
		cmd.Dir = sdk
		out, err := cmd.CombinedOutput()
		if err != nil && noNetwork.Match(out) {
			t.Skipf("SKIPPED: npm finds no registry: %s", strings.TrimSpace(string(out)))
		}
		if err != nil {
			t.Fatalf("npm %s: %s\n%s", strings.Join(args, " "), err, out)
		}
	}
}
