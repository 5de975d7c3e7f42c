//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestMakeCompare runs what the Makefile has for the command of the page, with TRL and the floor alone, and for a copy
// of the page.
func TestMakeCompare(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the timeouts of the tasks")
	}
	target, found := strings.CutPrefix(command(t, "../../docs/comparison.md", "## What is compared", "minutes"), "make ")
	recipe := regexp.MustCompile(`(?m)^` + target + `: .*\n\t(go run \./tests/compare -doc (\S+))$`).FindStringSubmatch(string(testkit.Must(os.ReadFile("../../Makefile"))(t)))
	if !found || recipe == nil {
		t.Fatalf("Makefile: make %s runs something else", target)
	}
	before := testkit.Must(os.ReadFile(filepath.Join("../..", recipe[2])))(t)
	page := filepath.Join(t.TempDir(), "comparison.md")
	if err := os.WriteFile(page, before, 0o600); err != nil {
		t.Fatal(err)
	}
	// The recipe of the page, with sh for a container.
	const podman = "podman exec box sh -c"
	_, others, found := strings.Cut(command(t, "../../docs/comparison.md", "## Other tools", "minutes"), "go run ./tests/compare ")
	if !found || !strings.Contains(others, podman) {
		t.Fatalf("the recipe is %q", others)
	}
	others = strings.Replace(others, podman, "sh -c", 1)
	cmd := exec.Command("sh", "-c", strings.Replace(recipe[1], recipe[2], page, 1)+` -bin "$1" -rounds 1 `+others, "sh", trltest.Binary(t))
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after := string(testkit.Must(os.ReadFile(page))(t))
	head, _, _ := strings.Cut(string(before), begin)
	_, tail, _ := strings.Cut(string(before), end)
	if !strings.HasPrefix(after, head+begin) || !strings.HasSuffix(after, end+tail) {
		t.Errorf("the page around the report has changed:\n%s", after)
	}
	rows := strings.Split(after[len(head):len(after)-len(tail)], "\n| trl | ")
	if len(rows) != 3 {
		t.Fatalf("the report has %d rows about trl:\n%s", len(rows)-1, after)
	}
	for _, cell := range []string{"nothing left", "status 3, the session lives", "right: has no marker", "the command survives, all of its output is kept"} {
		if !strings.Contains(rows[2], cell) {
			t.Errorf("trl: %q is missing: %s", cell, rows[2])
		}
	}
}

// command returns the commands of a section of a page that need a thing.
func command(t *testing.T, page, heading, thing string) string {
	t.Helper()
	_, section, _ := strings.Cut(string(testkit.Must(os.ReadFile(page))(t)), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, b := range testkit.Must(trltest.Blocks(section))(t) {
		if b.Needs == thing {
			return strings.TrimSpace(b.Code)
		}
	}
	t.Fatalf("%s, %s: has no command that needs %s", page, heading, thing)
	return ""
}
