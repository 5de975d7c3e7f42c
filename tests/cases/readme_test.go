package cases_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/cases"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestCommandsOfTheReadme: the README names flags, packages, tests and cases that exist. To run its commands would be
// to run all cases again.
func TestCommandsOfTheReadme(t *testing.T) {
	for line := range strings.Lines(trltest.OneSnippet(t, "tests/cases/README.md", "# Shell cases", "bash")) {
		command, _, _ := strings.Cut(line, " #")
		words := strings.Fields(command)
		if len(words) < 3 || words[0] != "go" || words[1] != "test" {
			t.Errorf("is no test: %s", line)
			continue
		}
		dir := ""
		for i := 2; i < len(words); i++ {
			name, _, _ := strings.Cut(words[i], "=")
			switch name = strings.TrimPrefix(name, "-"); {
			case strings.HasPrefix(name, "./"):
				dir = filepath.Join("../..", name)
			case name == "run" && i+1 < len(words):
				i++
				checkRun(t, dir, strings.Trim(words[i], "'"))
			case flag.Lookup(name) == nil && flag.Lookup("test."+name) == nil:
				t.Errorf("there is no flag %s: %s", words[i], line)
			}
		}
		if tests, _ := filepath.Glob(filepath.Join(dir, "*_test.go")); dir == "" || len(tests) == 0 {
			t.Errorf("names no package with tests: %s", line)
		}
	}
}

// checkRun checks that a package has the tests of a pattern TEST/SHELL/CASE.
func checkRun(t *testing.T, dir, pattern string) {
	t.Helper()
	parts := strings.Split(pattern, "/")
	files := testkit.Must(filepath.Glob(filepath.Join(dir, "*_test.go")))(t)
	if !slices.ContainsFunc(files, func(file string) bool {
		return strings.Contains(string(testkit.Must(os.ReadFile(file))(t)), "func "+parts[0]+"(t *testing.T)")
	}) {
		t.Errorf("%s: has no %s", dir, parts[0])
	}
	if len(parts) < 3 {
		return
	}
	wanted := regexp.MustCompile(parts[2])
	list := testkit.Must(cases.Corpus("testdata", "10"))(t)
	if !slices.ContainsFunc(list, func(c cases.Case) bool { return wanted.MatchString(c.ID) && slices.Contains(c.Shells, parts[1]) }) {
		t.Errorf("no case of %s matches %s", parts[1], parts[2])
	}
}
