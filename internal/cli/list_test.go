package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// printed returns the output of print.
func printed(t *testing.T, print func(*ui.Printer)) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	print(ui.NewPrinter(f))
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEndEach: what could not be ended is an error and in no list, and the order is that of the
// names.
func TestEndEach(t *testing.T) {
	end := func(name string) (string, error) {
		if name == "bad" {
			return "", errors.New("bad: not found")
		}
		return strings.ToUpper(name), nil
	}
	for asJSON, want := range map[bool]string{false: "a A\nb B\n", true: `{"things":["A","B"]}` + "\n"} {
		got := printed(t, func(p *ui.Printer) {
			err := endEach(p, []string{"a", "bad", "b"}, end, func(name, r string) { p.Line(name + " " + r) }, "things", asJSON)
			if err == nil || err.Error() != "bad: not found" {
				t.Errorf("the error is %v", err)
			}
		})
		if got != want {
			t.Errorf("as JSON %v: prints %q, want %q", asJSON, got, want)
		}
	}
	got := printed(t, func(p *ui.Printer) {
		if err := endEach(p, nil, end, func(string, string) {}, "things", true); err != nil {
			t.Error(err)
		}
	})
	if got != `{"things":[]}`+"\n" {
		t.Errorf("without names, prints %q", got)
	}
}

func TestPrintList(t *testing.T) {
	for f, want := range map[listFlags]string{
		{}:                        "table of 2\n",
		{quiet: true}:             "id-1\nid-2\n",
		{json: true, quiet: true}: `{"all":true}` + "\n",
	} {
		got := printed(t, func(p *ui.Printer) {
			table := func(list []string) error {
				p.Linef("table of %d", len(list))
				return nil
			}
			if err := printList(p, f, map[string]bool{"all": true}, []string{"1", "2"}, func(s string) string { return "id-" + s }, table); err != nil {
				t.Error(err)
			}
		})
		if got != want {
			t.Errorf("%+v: prints %q, want %q", f, got, want)
		}
	}
}
