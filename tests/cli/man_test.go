package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestManualPages has groff look at every page, where it is installed.
func TestManualPages(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	dir := t.TempDir()
	if o := s.run(t, "man", dir); o.status != 0 || o.stdout+o.stderr != "" {
		t.Fatalf("%+v", o)
	}
	for name, want := range map[string]string{
		"man1/trl.1":               ".SH NAME\ntrl \\- Run commands in sessions that keep their shell\n",
		"man1/trl-run.1":           "\n.B \\-\\-timeout ",
		"man1/trl-dialogue-send.1": ".SH SYNOPSIS\n.B trl dialogue send ",
		"man7/trl-exit-codes.7":    "\n  124     ",
		"man7/trl-isolation.7":     "\n.SH DESCRIPTION\n.PP\nIsolation bounds ",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v: has no %q:\n%s", name, err, want, text)
		}
	}
	pages, err := filepath.Glob(dir + "/*/*")
	if err != nil || len(pages) < 50 {
		t.Errorf("%d pages, %v", len(pages), err)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip(err)
	}
	// nroff's warnings about characters and macros that it does not know go to stderr.
	out, err := exec.Command(groff, append([]string{"-man", "-ww", "-Kutf8", "-Tutf8", "-z"}, pages...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("groff: %v: %s", err, out)
	}
}
