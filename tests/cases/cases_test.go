package cases_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/tests/cases"
	"github.com/trl-dev/trl/tests/trltest"
)

var (
	table = flag.Bool("table", false, "print a table of passed, failed and skipped cases per shell")
	// The corpus is generous, but it does not know of the race detector, nor of a
	// machine that runs other tests at the same time.
	scale = flag.Float64("scale", 3, "stretch every max_ms by this factor")
	grace = flag.String("grace", "2", "kill_grace_s of the daemon")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *table {
		score.print()
	}
	os.Exit(code)
}

// TestCases runs every case in every shell it names:
//
//	go test ./tests/cases -run 'TestCases/^bash$/own-kept'
//
// The cases of one shell run one after the other. The shells run beside each
// other, under names of their own: most of the time they wait for a timeout.
func TestCases(t *testing.T) {
	// Every session has limits, which no case reaches; internal/shell runs the cases without any.
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", *grace, "--log-level", "error", "--limit-cpus", "2", "--limit-memory-bytes", "4294967296",
		"--limit-pids", "1000", "--limit-open-files", "8192", "--limit-file-bytes", "4294967296", "--limit-output-bytes", "4294967296"))
	dir := t.TempDir()
	var group sync.WaitGroup
	for i, name := range cases.Tested {
		list, err := cases.Corpus("testdata", "1"+strconv.Itoa(i)) // the tests of internal/shell mark theirs with a 2
		if err != nil {
			t.Fatal(err)
		}
		runner := cases.Runner{Service: daemon.Client(t), Scale: *scale}
		group.Go(func() {
			t.Run(name, func(t *testing.T) { runShell(t, runner, name, dir, list) })
		})
	}
	group.Wait()
}

func runShell(t *testing.T, runner cases.Runner, name, dir string, list []cases.Case) {
	shell, err := cases.FindShell(name, dir)
	if err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: all cases of %s: %s\n", name, err)
		score.skip(name, len(list))
		t.Skip(err)
	}
	for _, c := range list {
		if slices.Contains(c.Shells, cases.Base(name)) {
			t.Run(c.ID, func(t *testing.T) { run(t, runner, c, shell) })
		}
	}
}

func run(t *testing.T, runner cases.Runner, c cases.Case, shell cases.Shell) {
	if os.Getenv(trltest.ScanVariable) != "" && slices.Contains(c.Tags, "subreaper") {
		score.skip(shell.Name, 1)
		t.Skip("only a subreaper or a cgroup finds the process")
	}
	if reason := c.SkipReason(shell); reason != "" {
		score.skip(shell.Name, 1)
		t.Skip(reason)
	}
	if testing.Short() && slices.Contains(c.Tags, "large") {
		score.skip(shell.Name, 1)
		t.Skip("large")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	bad := runner.Run(ctx, c, shell)
	score.count(shell.Name, c.ID, len(bad) == 0)
	for _, b := range bad {
		t.Error(b)
	}
}

// score counts results for the table.
var score scoreboard

type scoreboard struct {
	mu      sync.Mutex
	passed  map[string]int      // by shell
	skipped map[string]int      // by shell
	failed  map[string][]string // ids by shell
}

func (s *scoreboard) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passed == nil {
		s.passed, s.skipped, s.failed = map[string]int{}, map[string]int{}, map[string][]string{}
	}
	f()
}

func (s *scoreboard) skip(shell string, n int) { s.locked(func() { s.skipped[shell] += n }) }

func (s *scoreboard) count(shell, id string, ok bool) {
	s.locked(func() {
		if ok {
			s.passed[shell]++
		} else {
			s.failed[shell] = append(s.failed[shell], id)
		}
	})
}

func (s *scoreboard) print() {
	s.locked(func() {
		fmt.Printf("\n%-10s %7s %7s %8s\n", "shell", "passed", "failed", "skipped")
		for _, name := range cases.Tested {
			fmt.Printf("%-10s %7d %7d %8d\n", name, s.passed[name], len(s.failed[name]), s.skipped[name])
			for _, id := range s.failed[name] {
				fmt.Printf("       failed: %s\n", id)
			}
		}
		fmt.Println()
	})
}
