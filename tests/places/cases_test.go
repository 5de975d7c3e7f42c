//go:build linux

package places

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/cases"
)

// all makes the tests do everything that they can, for which CI has no time. It takes an hour.
var all = flag.Bool("all", os.Getenv("TRL_TEST_PLACES") == "all", "run every case in every shell, and the long tests in full length")

// lanes is how many cases run beside each other in one place.
const lanes = 4

// TestPlaces tests every place. In one session of each: much output, a daemon that is killed, programs beside
// the shell. Beside it: the cases of tests/cases, a terminal. Then: a dialogue, the examples of the
// documentation, and that nothing is left. Without -all
// the places share the cases that do not take long between them, each with another shell.
//
//	go test ./tests/places -timeout 3h -run TestPlaces/docker -all
func TestPlaces(t *testing.T) {
	links := t.TempDir()
	shells := map[string]cases.Shell{}
	for _, name := range cases.Tested {
		if s, err := cases.FindShell(name, links); err == nil {
			shells[name] = s
		} else {
			fmt.Fprintf(os.Stderr, "SKIPPED: all cases of %s in places: %s\n", name, err)
		}
	}
	shared := []string{links, agentDir(t)}
	if s, ok := shells["ash-static"]; ok {
		program, err := filepath.EvalSymlinks(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		shared = append(shared, filepath.Dir(program))
	}
	each(t, shared, func(p *place) {
		first := p.create(api.SessionCreateParams{}).SessionID
		p.Run("output", func(t *testing.T) { p.output(t, first) })
		p.Run("killed", func(t *testing.T) { p.killed(t, first) })
		names := cases.Tested
		if !*all {
			names = oneShell[p.name]
		}
		p.Run("cases", func(t *testing.T) {
			for _, name := range names {
				if shell, ok := shells[name]; ok {
					t.Run(name, func(t *testing.T) { p.corpus(t, first, shell) })
				}
			}
		})
		p.Run("terminal", func(t *testing.T) { p.terminal(t, first) })
		p.Run("programs", func(t *testing.T) { p.programs(t, first) })
		p.destroy(first)
		p.Run("dialogue", p.dialogue)
		p.Run("limits", p.limits)
		if p.name == "docker" {
			p.Run("limits changed", p.limitsChanged)
			p.Run("memory exhausted", p.exhausted)
		}
		p.Run("older", p.older)
		if *all && p.name != "trl" { // the runner there is that of the other daemon
			p.Run("clock", p.clock)
		}
		if p.name == "docker" {
			p.Run("from afar", p.fromAfar)
			p.Run("paused", p.paused)
		}
		p.Run("examples", p.examples)
		p.Run("cycles", p.cycles)
	})
}

// oneShell is the shell that CI runs in a place.
var oneShell = map[string][]string{"docker": {"bash"}, "ssh": {"zsh"}, "kubernetes": {"ash"}, "trl": {"sh"}}

// corpus runs the cases of a shell, some beside each other.
func (p *place) corpus(t *testing.T, beside string, shell cases.Shell) {
	number := slices.IndexFunc(builders, func(b builder) bool { return b.name == p.name })
	var lists [lanes][]cases.Case
	for lane := range lists {
		// The marks have three digits and begin with 3 to 6; those of other tests have two.
		list, err := cases.Corpus("../cases/testdata", fmt.Sprintf("%d%d%d", number+3, slices.Index(cases.Tested, shell.Name), lane))
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range list {
			wanted := *all || !c.IsSlow() && i%len(builders) == number
			if wanted && i/len(builders)%lanes == lane && slices.Contains(c.Shells, cases.Base(shell.Name)) {
				lists[lane] = append(lists[lane], c)
			}
		}
	}
	runner := cases.Runner{Service: p.Client, Beside: beside, Scale: 10}
	var group sync.WaitGroup
	for _, list := range lists {
		group.Go(func() {
			for _, c := range list {
				t.Run(c.ID, func(t *testing.T) {
					if reason := c.SkipReason(shell); reason != "" {
						t.Skip(reason)
					}
					ctx, cancel := context.WithTimeout(p.ctx, 10*time.Minute)
					defer cancel()
					for _, bad := range runner.Run(ctx, c, shell) {
						t.Error(bad)
					}
				})
			}
		})
	}
	group.Wait()
}
