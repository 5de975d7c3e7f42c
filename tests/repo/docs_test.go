package repo_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksBetweenDocumentsWork(t *testing.T) {
	sourceFiles(t, func(file string) {
		if path.Ext(file) != ".md" {
			return
		}
		for _, m := range markdownLink.FindAllStringSubmatch(read(t, file), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			to := path.Join(path.Dir(file), target)
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s: link to %s: no such file", file, m[1])
			}
		}
	})
}

func TestDecisionsAreNumberedAndListed(t *testing.T) {
	index := read(t, "docs/adr/README.md")
	files, err := filepath.Glob(filepath.Join(root, "docs/adr/[0-9]*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files { // Glob sorts
		name := filepath.Base(file)
		if want := fmt.Sprintf("%04d-", i+1); !strings.HasPrefix(name, want) {
			t.Errorf("docs/adr/%s: the next number is %s", name, want)
		}
		title, _, _ := strings.Cut(read(t, "docs/adr/"+name), "\n")
		prefix := fmt.Sprintf("# %d. ", i+1)
		if !strings.HasPrefix(title, prefix) {
			t.Errorf("docs/adr/%s: the title must begin with %q", name, prefix)
		}
		if !strings.Contains(index, fmt.Sprintf("| [%d](%s) | %s |", i+1, name, strings.TrimPrefix(title, prefix))) {
			t.Errorf("docs/adr/%s: is not in docs/adr/README.md with its number and title", name)
		}
	}
}

// TestArchitectureNamesEveryPackage keeps the table in the document complete.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	page := read(t, "docs/architecture.md")
	for _, p := range packages(t, "linux") {
		name := p.rel()
		if p.ours() && !forTests(name) && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/architecture.md: does not name %s", name)
		}
	}
	for _, m := range regexp.MustCompile("`((?:internal|cmd)/[a-z/-]+)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("docs/architecture.md: names %s, which does not exist", m[1])
		}
	}
}

// TestDocumentsNameThingsThatExist compares words that look like methods, events
// or error codes with the tables in api.
func TestDocumentsNameThingsThatExist(t *testing.T) {
	method := regexp.MustCompile("`((?:system|session|exec|dialogue|event)\\.[a-z]+)`")
	code := regexp.MustCompile("`([A-Z]+(?:_[A-Z]+)+)`")
	known := map[string]bool{"TRL_SESSION_ID": true, "BASH_SOURCE": true}
	for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"} {
		known[variable] = true // of other programs
	}
	for _, c := range api.Codes {
		known[string(c.Code)] = true
	}
	// exec.read is a call of the link, which the documents explain, dialogue.json a file, and
	// dialogue.turn a span.
	others := append([]string{"exec.read", "dialogue.json", "dialogue.turn"}, api.EventTypes...)
	sourceFiles(t, func(file string) {
		if path.Ext(file) != ".md" {
			return
		}
		text := read(t, file)
		for _, m := range method.FindAllStringSubmatch(text, -1) {
			if _, ok := api.FindMethod(m[1]); !ok && !slices.Contains(others, m[1]) {
				t.Errorf("%s: names the method %s, which does not exist", file, m[1])
			}
		}
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] && !strings.HasPrefix(m[1], "TRL_") && !strings.HasPrefix(m[1], "XDG_") && !strings.HasPrefix(m[1], "DOCKER_") && !strings.HasPrefix(m[1], "OTEL_") {
				t.Errorf("%s: names the code %s, which does not exist", file, m[1])
			}
		}
	})
}

// TestStrictMethodsAreDocumented compares ADR 9 with the method table.
func TestStrictMethodsAreDocumented(t *testing.T) {
	decided, _, _ := strings.Cut(read(t, "docs/adr/0009-unknown-parameters.md"), "**Why.**")
	for _, m := range api.Methods() {
		if got := strings.Contains(decided, "`"+m.Name+"`"); got != m.Strict {
			t.Errorf("docs/adr/0009-unknown-parameters.md: names %s: %v, strict in the table: %v", m.Name, got, m.Strict)
		}
	}
}

func TestMakefileIsShortAndExplained(t *testing.T) {
	makefile := read(t, "Makefile")
	var phony []string
	for _, name := range strings.Fields(regexp.MustCompile(`(?m)^\.PHONY:(.*)$`).FindStringSubmatch(makefile)[1]) {
		if name != "FORCE" {
			phony = append(phony, name)
		}
	}
	if len(phony) > 18 {
		t.Errorf("Makefile: %d targets, at most 18", len(phony))
	}
	for _, name := range phony {
		if !regexp.MustCompile(`(?m)^` + name + `:.* ## .+$`).MatchString(makefile) {
			t.Errorf("Makefile: %s: has no text for make help", name)
		}
	}
	for _, name := range regexp.MustCompile(`(?m)^([a-z]+):`).FindAllStringSubmatch(makefile, -1) {
		if !slices.Contains(phony, name[1]) {
			t.Errorf("Makefile: %s: is not in .PHONY", name[1])
		}
	}
}

// TestCIRunsTheCommandOfTheReadme: no hidden steps between a reader and a green run.
func TestCIRunsTheCommandOfTheReadme(t *testing.T) {
	const command = "make check"
	blocks, err := trltest.Blocks(read(t, "README.md"))
	if err != nil || !slices.ContainsFunc(blocks, func(b trltest.Block) bool { return strings.TrimSpace(b.Code) == command }) {
		t.Errorf("README.md: has no block with %q alone: %v", command, err)
	}
	lines := strings.Split(strings.TrimSpace(read(t, ".ci/run")), "\n")
	if last := lines[len(lines)-1]; last != command {
		t.Errorf(".ci/run: ends with %q, want %q", last, command)
	}
	info, err := os.Stat(filepath.Join(root, ".ci/run"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode()&0o111 == 0 {
		t.Error(".ci/run: is not executable")
	}
}

func TestChangelogHasUnreleased(t *testing.T) {
	if !strings.Contains(read(t, "CHANGELOG.md"), "\n## [Unreleased]\n") {
		t.Error("CHANGELOG.md: has no section Unreleased")
	}
}
