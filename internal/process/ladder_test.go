package process_test

import (
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

// long is a grace time that no test waits for.
const long = time.Minute

func TestKillTree(t *testing.T) {
	const (
		TERM = syscall.SIGTERM
		KILL = syscall.SIGKILL
	)
	for _, c := range []struct {
		name   string
		script string // prints "ready" once for each process that must have started
		ready  int
		first  syscall.Signal
		grace  time.Duration
		want   []string // command and signal of the lines that the receipt must have
		later  bool     // those commands appear only during the kill
	}{
		{"plain", `echo ready; sleep 300; :`, 1, TERM, long,
			[]string{"sh -c SIGTERM"}, false},
		{"pipeline", `sleep 300 | sleep 302 | sleep 303 & sleep 301 & echo ready; wait`, 1, TERM, long,
			[]string{"sleep 300 SIGTERM", "sleep 301 SIGTERM", "sleep 302 SIGTERM", "sleep 303 SIGTERM"}, false},
		{"setsid", `setsid sh -c 'echo ready; exec sleep 300' & wait`, 1, TERM, long,
			[]string{"sleep 300 SIGTERM"}, false},
		{"double fork", `( (setsid sh -c 'echo ready; exec sleep 300' &) & ); echo ready`, 2, TERM, long,
			[]string{"sleep 300 SIGTERM"}, false},
		{"nohup", `nohup sh -c 'echo ready; exec sleep 300' & wait`, 1, TERM, long,
			[]string{"sleep 300 SIGTERM"}, false},
		{"nohup from HUP", `nohup sh -c 'echo ready; exec sleep 300' & wait`, 1, syscall.SIGHUP, long,
			[]string{"sleep 300 SIGTERM"}, false},
		{"ignores TERM", `trap '' TERM; sleep 300 & echo ready; wait`, 1, TERM, 100 * time.Millisecond,
			[]string{"sh -c SIGKILL", "sleep 300 SIGKILL"}, false},
		{"child ignores TERM", `sh -c 'trap "" TERM; echo ready; exec sleep 300' & wait`, 1, TERM, 100 * time.Millisecond,
			[]string{"sleep 300 SIGKILL", "sh -c SIGTERM"}, false},
		{"no grace", `sleep 300 & echo ready; wait`, 1, TERM, 0,
			[]string{"sleep 300 SIGKILL"}, false},
		{"KILL first", `sleep 300 & echo ready; wait`, 1, KILL, long,
			[]string{"sleep 300 SIGKILL"}, false},
		{"stopped", `sh -c 'kill -STOP $$; sleep 300; :' & wait`, 0, TERM, long,
			[]string{"sh -c kill -STOP SIGTERM", "sh -c sh SIGTERM"}, false},
		{"stopped and ignores TERM", `trap '' TERM; sh -c 'kill -STOP $$; sleep 300; :' & wait`, 0, TERM, 100 * time.Millisecond,
			[]string{"sh -c kill -STOP SIGKILL"}, false},
		{"forks while it is killed", `trap 'storm' TERM
			storm() { i=0; while [ $i -lt 200 ]; do sleep 300 & i=$((i+1)); done; }
			echo ready; while :; do sleep 0.01; done`, 1, TERM, 500 * time.Millisecond,
			[]string{"sleep 300 SIGTERM", "sh -c SIGKILL"}, true},
		{"forks while it is killed and ignores TERM", `trap '' TERM; echo ready
			i=0; while [ $i -lt 200 ]; do sleep 300 & i=$((i+1)); done; sleep 300`, 1, TERM, 20 * time.Millisecond,
			[]string{"sh -c SIGKILL"}, false},
		{"flees", `n=1000; flee() { n=$((n-1)); [ $n -gt 0 ] || exit 0; flee & exit 0; }; echo ready; flee`, 1, KILL, 0,
			nil, false},
		{"nothing there", `echo ready`, 1, TERM, long, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			isolated(t, func(t *testing.T) {
				if !process.BecomeSubreaper() && (c.name == "double fork" || c.name == "flees") {
					t.Skip("needs a subreaper")
				}
				r := process.NewReaper()
				defer r.Close()
				_, fds := process.SelfUsage()
				p := shell(t, r, c.script)
				for range c.ready {
					p.expect(t, "ready")
				}
				// Between fork and exec a child has the command line of its parent.
				for _, want := range c.want {
					command, _, _ := strings.Cut(want, " SIG")
					testkit.Eventually(t, command+" runs", func() bool {
						return c.later || slices.ContainsFunc(marked(), func(i process.Info) bool {
							return strings.HasPrefix(process.CommandLine(i.PID), command)
						})
					})
				}
				if strings.HasPrefix(c.name, "stopped") {
					testkit.Eventually(t, "a process is stopped", func() bool {
						return slices.ContainsFunc(marked(), func(i process.Info) bool { return i.State == 'T' })
					})
				}
				began := time.Now()
				killed := process.KillTree(os.Getpid(), c.first, c.grace, nil)
				if took := time.Since(began); took > c.grace+10*time.Second {
					t.Errorf("it took %s", took)
				}
				if left := marked(); len(left) > 0 {
					t.Errorf("left alive: %s", describe(pidsOf(left)))
					process.KillAll(left, KILL, 0)
				}
				receipt := lines(killed)
				for _, want := range c.want {
					command, sig, _ := strings.Cut(want, " SIG")
					if !slices.ContainsFunc(receipt, func(line string) bool {
						return strings.HasPrefix(line, command) && strings.HasSuffix(line, " SIG"+sig)
					}) {
						t.Errorf("%q is not in the receipt: %q", want, receipt)
					}
				}
				p.wait(t)
				allReaped(t)
				if _, now := process.SelfUsage(); now > fds+2 { // the pipes of p
					t.Errorf("%d descriptors before, %d after", fds, now)
				}
			})
		})
	}
}

func lines(killed []process.Killed) []string {
	var list []string
	for _, k := range killed {
		list = append(list, k.Command+" "+process.SignalName(k.Signal))
	}
	return list
}

// A skipped process stays alive, with all its descendants.
func TestKillTreeSkips(t *testing.T) {
	isolated(t, func(t *testing.T) {
		process.BecomeSubreaper()
		r := process.NewReaper()
		defer r.Close()
		spared := shell(t, r, `sleep 300 & echo $!; wait`)
		below := spared.number(t)
		other := shell(t, r, `sleep 301 & echo $!; wait`)
		other.number(t)
		killed := process.KillTree(os.Getpid(), syscall.SIGTERM, long, func(i process.Info) bool { return i.PID == spared.PID })
		if len(killed) != 2 {
			t.Errorf("killed %q", lines(killed))
		}
		other.wait(t)
		if got := pidsOf(marked()); !slices.Contains(got, spared.PID) || !slices.Contains(got, below) || len(got) != 2 {
			t.Errorf("alive are %s", describe(got))
		}
		process.KillTree(os.Getpid(), syscall.SIGKILL, 0, nil)
		allReaped(t)
	})
}

// The root of the tree can be another process than this one; the root itself is not signalled.
func TestKillTreeBelowAnother(t *testing.T) {
	isolated(t, func(t *testing.T) {
		process.BecomeSubreaper()
		r := process.NewReaper()
		defer r.Close()
		root := shell(t, r, `(trap '' TERM; sleep 300 & echo ready; wait) & read x`)
		root.expect(t, "ready")
		killed := process.KillTree(root.PID, syscall.SIGTERM, 50*time.Millisecond, nil)
		if len(killed) != 2 {
			t.Errorf("killed %q", lines(killed))
		}
		root.in.Close()
		if e := root.wait(t); e.Signal != 0 {
			t.Errorf("the root ended with %+v", e)
		}
	})
}

func TestKillAll(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, `setsid sleep 300 & echo $!; wait`)
		c.number(t)
		self := mustStat(t, os.Getpid())
		gone := mustStat(t, c.PID)
		gone.StartTime++
		killed := process.KillAll([]process.Info{self, gone}, syscall.SIGKILL, 0)
		if len(killed) != 0 {
			t.Fatalf("killed %q", lines(killed))
		}
		if killed = process.KillAll(marked(), syscall.SIGTERM, long); len(killed) != 2 {
			t.Errorf("killed %q", lines(killed))
		}
		c.wait(t)
		allReaped(t)
	})
}

// A child between fork and exec ignores the signals that its shell ignores. It gets the signal again
// after exec.
func TestLadderRepeatsLostSignal(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, `trap '' TERM; echo ready; read x; trap - TERM; read y`)
		c.expect(t, "ready")
		l := process.NewLadder(os.Getpid(), syscall.SIGTERM, long, nil)
		defer l.Close()
		if left := l.Step(); left != 1 {
			t.Fatalf("%d left", left)
		}
		if k := l.Killed(); len(k) != 0 {
			t.Errorf("the receipt has the living: %q", lines(k))
		}
		io.WriteString(c.in, "go on\n")
		testkit.Eventually(t, "nothing is left", func() bool { return l.Step() == 0 })
		if e := c.wait(t); e.Signal != syscall.SIGTERM {
			t.Errorf("got %+v", e)
		}
	})
}

func init() {
	// catches prints "got" for the first SIGTERM and restores the default action, as many
	// programs do for impatient users. It ends with its input.
	helpers["catches"] = func() {
		sigs := make(chan os.Signal, 1)
		signal.Notify(sigs, syscall.SIGTERM)
		os.Stdout.WriteString("ready\n")
		<-sigs
		signal.Reset(syscall.SIGTERM)
		os.Stdout.WriteString("got\n")
		io.Copy(io.Discard, os.Stdin)
	}
	// becomes catches SIGTERM, and executes another program after a line of input.
	helpers["becomes"] = func() {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
		os.Stdout.WriteString("ready\n")
		var line [1]byte
		os.Stdin.Read(line[:])
		syscall.Exec("/bin/cat", []string{"cat"}, os.Environ())
	}
}

// TestLadderUrgesAgain ends a process that ignores SIGTERM and misses the first SIGHUP, as bash does
// if the signal arrives just before it waits for input.
func TestLadderUrgesAgain(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, `trap '' TERM; trap 'trap - HUP; echo missed' HUP; echo ready; while :; do sleep 0.01; done`)
		c.expect(t, "ready")
		l := process.NewLadder(os.Getpid(), syscall.SIGTERM, long, nil)
		defer l.Close()
		l.HangUp()
		testkit.Eventually(t, "nothing is left", func() bool { return l.Step() == 0 })
		c.expect(t, "missed")
		if e := c.wait(t); e.Signal != syscall.SIGHUP {
			t.Errorf("got %+v", e)
		}
	})
}

// A process that caught the signal does not get it again, so that it can end by itself.
func TestLadderAsksOnce(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := helper(t, r, "catches")
		c.expect(t, "ready")
		l := process.NewLadder(os.Getpid(), syscall.SIGTERM, long, nil)
		defer l.Close()
		l.Step()
		c.expect(t, "got")
		for range 5 {
			if left := l.Step(); left != 1 {
				t.Fatalf("%d left", left)
			}
		}
		c.in.Close()
		if e := c.wait(t); e.Code() != 0 {
			t.Errorf("ended with %+v", e)
		}
	})
}

func TestLadderAsksTheNextProgram(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := helper(t, r, "becomes")
		c.expect(t, "ready")
		l := process.NewLadder(os.Getpid(), syscall.SIGTERM, long, nil)
		defer l.Close()
		l.Step()
		io.WriteString(c.in, "x")
		testkit.Eventually(t, "nothing is left", func() bool { return l.Step() == 0 })
		if e := c.wait(t); e.Signal != syscall.SIGTERM {
			t.Errorf("got %+v", e)
		}
		if k := l.Killed(); len(k) != 1 || strings.Trim(k[0].Command, "[]") != "cat" {
			t.Errorf("the receipt is %q", lines(k))
		}
	})
}

func TestLadderForce(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, `trap '' TERM; echo ready; read x`)
		c.expect(t, "ready")
		l := process.NewLadder(os.Getpid(), syscall.SIGTERM, long, nil)
		defer l.Close()
		if left := l.Step(); left != 1 {
			t.Fatalf("%d left", left)
		}
		l.Force()
		testkit.Eventually(t, "nothing is left", func() bool { return l.Step() == 0 })
		if k := l.Killed(); len(k) != 1 || k[0].Signal != syscall.SIGKILL {
			t.Errorf("the receipt is %q", lines(k))
		}
		c.wait(t)
	})
}

// A process of another user cannot be ended, and KillTree returns nevertheless.
func TestKillTreeOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, `echo ready; read x`)
		c.expect(t, "ready")
		if err := syscall.Setuid(65534); err != nil {
			t.Fatal(err)
		}
		for _, grace := range []time.Duration{0, long} {
			began := time.Now()
			if killed := process.KillTree(os.Getpid(), syscall.SIGTERM, grace, nil); len(killed) != 0 {
				t.Errorf("the receipt is %q", lines(killed))
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		}
		c.in.Close()
		if e := c.wait(t); e.Signal != 0 {
			t.Errorf("ended with %+v", e)
		}
	})
}

func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGUSR2} {
		name := process.SignalName(sig)
		for _, text := range []string{name, strings.TrimPrefix(name, "SIG"), strings.ToLower(name), strconv.Itoa(int(sig))} {
			if got, ok := process.ParseSignal(text); !ok || got != sig {
				t.Errorf("%q: got %v, %v", text, got, ok)
			}
		}
	}
	for _, text := range []string{"", "SIG", "STOP", "0", "-9", "17", "999", "TERMX", "SIGSIGTERM"} {
		if got, ok := process.ParseSignal(text); ok {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if got := process.SignalName(99); got != "SIG99" {
		t.Errorf("got %q", got)
	}
}
