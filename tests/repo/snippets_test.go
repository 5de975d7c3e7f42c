package repo_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// ownTests are the tests that take all snippets of a page in one language and are not in Go, or take them from their
// source: a file, and a word of it.
var ownTests = map[string]struct{ file, word string }{
	"docs/api.md text":            {"internal/gen/examples_test.go", "examplesOf("},
	"sdk/python/README.md python": {"sdk/python/tests/test_readme.py", "```python\\n(.*?)```"},
	"sdk/typescript/README.md ts": {"sdk/typescript/test/readme.test.ts", "^```ts\\n(.*?)^```$"},
}

// TestEverySnippetIsTested wants a test for every block of every page. Other tests run the sh blocks, with the text
// directly after them; TestConfigurationOfPagesIsRead reads every toml block. For each other block there is
// a test with trltest.OneSnippet or trltest.AllSnippets, or one of ownTests. A block without a language is a
// picture.
func TestEverySnippetIsTested(t *testing.T) {
	var tests strings.Builder
	sourceFiles(t, func(file string) {
		if strings.HasSuffix(file, "_test.go") && file != "tests/repo/snippets_test.go" {
			tests.WriteString(read(t, file))
		}
	})
	found := 0
	eachSnippet(t, func(file string, s trltest.Snippet) {
		found++
		where := fmt.Sprintf("%s:%d", file, s.Line)
		own := ownTests[file+" "+s.Lang]
		switch {
		case s.Lang == "toml":
		case s.Lang == "":
			if !strings.ContainsAny(s.Code, "─▶│└") {
				t.Errorf("%s: is no picture, and needs a language:\n%s", where, s.Code)
			}
		case strings.Contains(tests.String(), fmt.Sprintf("trltest.OneSnippet(t, %q, %q, %q)", file, s.Heading, s.Lang)):
		case strings.Contains(tests.String(), fmt.Sprintf("trltest.AllSnippets(t, %q, %q)", file, s.Lang)):
		case own.file == "":
			t.Errorf("%s: no test takes this block with trltest.OneSnippet(t, %q, %q, %q)", where, file, s.Heading, s.Lang)
		case !strings.Contains(read(t, own.file), own.word):
			t.Errorf("%s: %s does not take this block", where, own.file)
		}
	})
	if found < 100 {
		t.Errorf("found %d blocks", found)
	}
}

// eachSnippet calls f with every snippet of every page.
func eachSnippet(t *testing.T, f func(file string, s trltest.Snippet)) {
	t.Helper()
	sourceFiles(t, func(file string) {
		if path.Ext(file) != ".md" {
			return
		}
		list, err := trltest.Snippets(read(t, file))
		if err != nil {
			t.Errorf("%s: %s", file, err)
		}
		for _, s := range list {
			f(file, s)
		}
	})
}

// TestConfigurationOfPagesIsRead reads every configuration of every page, and starts a daemon with it.
func TestConfigurationOfPagesIsRead(t *testing.T) {
	needTools(t)
	found := 0
	eachSnippet(t, func(file string, s trltest.Snippet) {
		if s.Lang != "toml" {
			return
		}
		found++
		t.Run(fmt.Sprintf("%s:%d", file, s.Line), func(t *testing.T) {
			t.Parallel()
			readConfiguration(t, s.Code)
		})
	})
	if found < 5 {
		t.Errorf("found %d configurations", found)
	}
}

func readConfiguration(t *testing.T, text string) {
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.Register(flags)
	if err := flags.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(flags, []string{"HOME=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(cfg.Entries(), func(e config.Entry) bool { return e.Origin == "file "+file }) {
		t.Error("sets nothing")
	}
	c := trltest.Start(t, trltest.Args("--config", file)).Client(t)
	places := testkit.Must(c.RuntimeList(t.Context(), api.RuntimeListParams{}))(t).Runtimes
	for name := range cfg.Runtimes {
		if !slices.ContainsFunc(places, func(p api.RuntimeInfo) bool { return p.Runtime == name }) {
			t.Errorf("runtime.list has no %s: %+v", name, places)
		}
	}
}
