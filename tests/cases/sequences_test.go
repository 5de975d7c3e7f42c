package cases_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/cases"
	"github.com/trl-dev/trl/tests/trltest"
)

var (
	sequences = flag.Int("sequences", 10, "random sequences of commands in each shell, of each kind")
	seed      = flag.Uint64("seed", 1, "what the random sequences are made of")
)

// eachShell calls f with every POSIX-like shell that is installed, beside each other.
func eachShell(t *testing.T, f func(t *testing.T, service api.Service, shell cases.Shell, random *rand.Rand)) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", *grace, "--log-level", "error"))
	dir := t.TempDir()
	var group sync.WaitGroup
	for i, name := range []string{"sh", "bash", "zsh", "ash", "ash-static"} {
		service := daemon.Client(t)
		group.Go(func() {
			t.Run(name, func(t *testing.T) {
				shell, err := cases.FindShell(name, dir)
				if err != nil {
					t.Skip(err)
				}
				f(t, service, shell, rand.New(rand.NewPCG(*seed, uint64(i))))
			})
		})
	}
	group.Wait()
}

// pick makes a sequence of n commands.
func pick(random *rand.Rand, n int, pools ...[]string) []string {
	var all, list []string
	for _, p := range pools {
		all = append(all, p...)
	}
	for range n {
		list = append(list, all[random.IntN(len(all))])
	}
	return list
}

// TestSequences runs random sequences of commands, which must give the same in the
// real shell.
func TestSequences(t *testing.T) {
	eachShell(t, func(t *testing.T, service api.Service, shell cases.Shell, random *rand.Rand) {
		runner := cases.Runner{Service: service, Scale: *scale}
		pools := [][]string{stateful, ordinary}
		if cases.Base(shell.Name) != "ash" {
			pools = append(pools, subshellTraps)
		}
		for range *sequences {
			c := cases.Case{Differential: true, Session: api.SessionCreateParams{WorkingDir: "/"}}
			// The real shell starts in another directory; nothing else may depend on it.
			for _, command := range append([]string{"cd /; cd /usr"}, pick(random, 8, pools...)...) {
				c.Steps = append(c.Steps, cases.Step{Command: &command})
			}
			for _, bad := range runner.Run(t.Context(), c, shell) {
				t.Errorf("%s\nin %s", bad, listed(c))
			}
		}
	})
}

// TestDisturbed runs a random sequence twice: once as it is, once with commands in
// between that kill the shell, make it exit, or have to be stopped. Nothing that the
// shell knows may be changed by that.
func TestDisturbed(t *testing.T) {
	eachShell(t, func(t *testing.T, service api.Service, shell cases.Shell, random *rand.Rand) {
		pools := [][]string{stateful}
		switch shell.Name {
		case "bash":
			pools = append(pools, printable, ofBash)
		case "zsh":
			pools = append(pools, printable, ofZsh)
		}
		for range *sequences {
			var disturbed []string
			plain := pick(random, 12, pools...)
			for _, command := range plain {
				disturbed = append(disturbed, command)
				if random.IntN(2) == 0 {
					disturbed = append(disturbed, disturbances[random.IntN(len(disturbances))])
				}
			}
			want, got := play(t, service, shell, plain), play(t, service, shell, disturbed)
			if got != want {
				t.Errorf("%q\nprints        %q\nundisturbed   %q", disturbed, got, want)
			}
		}
	})
}

// disturbances print nothing and leave nothing, however they end.
var disturbances = []string{
	"exit 3", "kill -9 $$", "while :; do :; done", "sleep 9", "echo \"", "exec sh -c 'exit 4'", "kill -SEGV $$; sleep 9",
}

// play runs commands in a new session and returns everything they print.
func play(t *testing.T, service api.Service, shell cases.Shell, commands []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := service.SessionCreate(ctx, api.SessionCreateParams{Shell: shell.Path, WorkingDir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, _ = service.SessionDestroy(context.WithoutCancel(ctx), api.SessionDestroyParams{SessionID: s.SessionID, Force: true})
	}()
	var all strings.Builder
	for _, command := range commands {
		timeout := 20.0
		if strings.HasPrefix(command, "sleep 9") || strings.HasPrefix(command, "while :") {
			timeout = 0.03
		}
		r, err := service.ExecRun(ctx, api.ExecParams{SessionID: s.SessionID, Command: command, TimeoutS: &timeout})
		if err != nil {
			t.Fatalf("%q: %s", command, err)
		}
		all.WriteString(r.Stdout)
		if r.TimedOut && timeout > 1 {
			fmt.Fprintf(&all, "(%q did not end)", command)
		}
	}
	return all.String()
}

func listed(c cases.Case) string {
	var list []string
	for _, s := range c.Steps {
		list = append(list, fmt.Sprintf("%q", *s.Command))
	}
	return strings.Join(list, "\n   ")
}
