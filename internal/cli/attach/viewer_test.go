package attach

import (
	"os"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// TestHungUp: without a terminal, the exit status is that of SIGHUP, unless a signal that ends
// trl came first.
func TestHungUp(t *testing.T) {
	defer signal.Reset(unix.SIGHUP)
	for want, came := range map[int][]os.Signal{
		129: {unix.SIGWINCH, unix.SIGTSTP},
		143: {unix.SIGWINCH, unix.SIGTERM, unix.SIGHUP},
	} {
		signals := make(chan os.Signal, len(came))
		for _, s := range came {
			signals <- s
		}
		if got := ui.StatusOf(hungUp(signals)); got != want {
			t.Errorf("after %v: status %d, want %d", came, got, want)
		}
	}
}

func TestEndText(t *testing.T) {
	for want, o := range map[string]api.ExecOutcome{
		"the program exited with status 3": {ExitCode: 3},
		"the program died of SEGV":         {ExitCode: 139, Signal: "SEGV"},
		"the program was ended":            {ExitCode: 143, Signal: "TERM", Cancelled: true},
	} {
		if got := endText(o); got != want {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
}
