package cli

import (
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// TestRequestsAreMissing: stderr names the dialogues that the daemon still reads.
func TestRequestsAreMissing(t *testing.T) {
	for want, res := range map[string]api.DialogueRequestsResult{
		"": {},
		"trl: the daemon still reads 1 dialogue, whose requests are missing: d-1\n":       {Recovering: []string{"d-1"}},
		"trl: the daemon still reads 2 dialogues, whose requests are missing: d-1, d-2\n": {Recovering: []string{"d-1", "d-2"}},
	} {
		stdout := printed(t, func(out *ui.Printer) {
			stderr := printed(t, func(err *ui.Printer) {
				a := &app{}
				a.Stdout, a.Stderr = out, err
				a.printRequests(res)
			})
			if stderr != want {
				t.Errorf("stderr has %q, want %q", stderr, want)
			}
		})
		if stdout != "" {
			t.Errorf("stdout has %q", stdout)
		}
	}
}
