package cli

import (
	"slices"
	"testing"
)

// TestOneCommand: a command line that names a command builds that command and no other.
func TestOneCommand(t *testing.T) {
	a := &app{}
	all := a.root(nil).Commands()
	for i, c := range a.commands() {
		if all[i].Name() != c.name {
			t.Errorf("command %d is %q, not %q", i, all[i].Name(), c.name)
		}
		if slices.Contains(aboutAll, c.name) {
			continue
		}
		if got := a.root([]string{c.name, "--help"}).Commands(); len(got) != 1 || got[0].Name() != c.name {
			t.Errorf("trl %s: has the commands %v", c.name, got)
		}
	}
	for _, args := range [][]string{nil, {"--help"}, {"help", "run"}, {"rm"}, {"rn"}, {"completion", "bash"}, {"man", "dir"}, {"docs"}, {"-v", "run"}} {
		if got := a.root(args).Commands(); len(got) != len(all) {
			t.Errorf("trl %v: has %d commands of %d", args, len(got), len(all))
		}
	}
}
