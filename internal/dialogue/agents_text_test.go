package dialogue

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTextsListEveryAgent: a help text, a tool description or a document that lists the agents lists
// those of the table, all of them.
func TestTextsListEveryAgent(t *testing.T) {
	names := slices.Sorted(maps.Keys(agents))
	name := `(?i:` + strings.Join(names, "|") + `)`
	list := regexp.MustCompile(`\b` + name + `(?: \(default\))?(?:, (?:[a-z]+ )*?` + name + `)+,? (?:or|and)(?: [a-z]+){0,3}? ` + name + `\b`)
	found := 0
	for _, pattern := range []string{
		"api/*.go", "internal/cli/*.go", "internal/mcp/*.go", "README.md", "docs/*.md", "client/*.go",
		"sdk/python/src/trl_client/*.py", "sdk/typescript/src/*.ts", "sdk/*/README.md",
	} {
		files, err := filepath.Glob(filepath.Join("../..", filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, words := range list.FindAllString(string(text), -1) {
				found++
				for _, name := range names {
					if !strings.Contains(strings.ToLower(words), name) {
						t.Errorf("%s: %q does not name %s", file, words, name)
					}
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("found %d lists; the expression does not match them", found)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join("agent", name)); err != nil {
			t.Errorf("agent %s has no folder: %s", name, err)
		}
	}
}
