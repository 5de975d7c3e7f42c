package runner_test

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	bounds "github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

// scoreOf returns the oom_score_adj of a process.
func scoreOf(t *testing.T, pid int) int {
	t.Helper()
	text := testkit.Must(os.ReadFile("/proc/" + strconv.Itoa(pid) + "/oom_score_adj"))(t)
	return testkit.Must(strconv.Atoi(strings.TrimSpace(string(text))))(t)
}

// above is a program that waits until its score is above another one and prints it. The builtin read would
// take each digit at another time.
func above(score int) []string {
	return []string{"sh", "-c", fmt.Sprintf("until s=$(cat /proc/$$/oom_score_adj); [ $s -gt %d ]; do :; done; echo $s", score)}
}

// inPlace creates a session in a place that enforces a memory limit; 0 for none.
func (d *daemon) inPlace(p api.SessionCreateParams, most int64) {
	d.t.Helper()
	params := link.CreateParams{SessionID: d.id, Params: p, Limits: limits, BaseEnv: map[string]string{"PATH": os.Getenv("PATH")}}
	if most > 0 {
		params.Params.Limits = &api.Limits{MemoryBytes: &most}
		params.Required, params.Enforced = []string{api.LimitMemory}, inDocker
	}
	if _, err := d.conn.Call(d.t.Context(), link.Create.With(&params, nil, &link.SessionDetails{})); err != nil {
		d.t.Fatal(err)
	}
}

var inDocker = []api.EnforcedLimit{{Limit: api.LimitMemory, Mechanism: "docker"}}

// TestVictims: the kernel's preference is for commands, then the shell, then the runner, where a limit of
// the place counts the runner too. Elsewhere the shell keeps the score of the runner.
func TestVictims(t *testing.T) {
	const most = 1 << 30
	wantShell := func(t *testing.T, d *daemon, score int) {
		t.Helper()
		if out := d.mustRun("cat /proc/$$/oom_score_adj"); out != strconv.Itoa(score)+"\n" {
			t.Errorf("the shell: %q, want the score %d", out, score)
		}
	}
	want := func(t *testing.T, d *daemon, shell, command int) {
		t.Helper()
		quoted := fmt.Sprintf("'%s' '%s' '%s'", above(shell)[0], above(shell)[1], above(shell)[2])
		for what, p := range map[string]api.ExecParams{"a command": {Command: quoted}, "a program beside the shell": {Argv: above(shell)}} {
			p.TimeoutS = ptr(60.0)
			if out, oc := d.runText(p); out != strconv.Itoa(command)+"\n" {
				t.Errorf("%s: %q, want the score %d: %+v", what, out, command, oc)
			}
		}
		wantShell(t, d, shell)
	}
	own := scoreOf(t, os.Getpid())
	shared, apart, unlimited := bounds.ScoresFor(own, most), bounds.ScoresFor(own, 0), own
	if here := bounds.OwnMemory(); here > 0 { // the machine of the test is itself such a place
		shared = bounds.ScoresFor(own, here)
		apart, unlimited = shared, shared.Command
	}
	if own < 900 && (shared.Shell <= own || shared.Command <= shared.Shell) {
		t.Fatalf("the runner has the score %d, the others %+v", own, shared)
	}

	t.Run("shared", func(t *testing.T) {
		d := launch(t)
		d.inPlace(api.SessionCreateParams{Shell: "bash"}, most)
		want(t, d, shared.Shell, shared.Command)
		if got := scoreOf(t, d.cmd.Process.Pid); got != own {
			t.Errorf("the runner has the score %d, the test %d", got, own)
		}
		// The shell that replaces one that died is not a process of the command, although it starts while
		// that is under way. It may start between two looks at the processes of the command.
		for range 8 {
			if _, oc := d.runText(api.ExecParams{Command: "kill -9 $$"}); !oc.ShellRestarted {
				t.Fatalf("%+v", oc)
			}
			wantShell(t, d, shared.Shell)
		}
		want(t, d, shared.Shell, shared.Command)
	})
	t.Run("of another owner", func(t *testing.T) {
		d := launchWithin(t, most/2) // TRL has set no limit
		d.inPlace(api.SessionCreateParams{Shell: "bash"}, 0)
		half := bounds.ScoresFor(own, min(most/2, cmp.Or(bounds.OwnMemory(), most)))
		want(t, d, half.Shell, half.Command)
	})
	t.Run("changed", func(t *testing.T) {
		d := launch(t)
		d.inPlace(api.SessionCreateParams{Shell: "bash"}, 0)
		d.mustRun("sleep 600 >/dev/null 2>&1 &")
		if err := d.set(link.SetParams{Limits: &api.Limits{MemoryBytes: ptr(int64(most))}, Enforced: inDocker}); err != nil {
			t.Fatal(err)
		}
		want(t, d, shared.Shell, shared.Command)
		for _, p := range process.Descendants(d.cmd.Process.Pid, nil) {
			if got := scoreOf(t, p.PID); got < shared.Shell {
				t.Errorf("%s has the score %d", p.Name, got)
			}
		}
	})
	t.Run("apart", func(t *testing.T) {
		d := limited(t, api.SessionCreateParams{Shell: "bash", Limits: &api.Limits{MemoryBytes: ptr(int64(most))}})
		want(t, d, apart.Shell, apart.Command)
	})
	t.Run("no limit", func(t *testing.T) {
		d := start(t, api.SessionCreateParams{Shell: "bash"})
		if out, _ := d.runText(api.ExecParams{Argv: []string{"cat", "/proc/self/oom_score_adj"}}); out != strconv.Itoa(unlimited)+"\n" {
			t.Errorf("%q, want the score %d", out, unlimited)
		}
	})
	for _, kind := range []api.SessionKind{api.KindTerminal, api.KindProgram} {
		t.Run(string(kind), func(t *testing.T) {
			d := launch(t)
			d.inPlace(api.SessionCreateParams{Kind: kind, Command: []string{"sleep", "600"}}, most)
			list := process.Descendants(d.cmd.Process.Pid, nil)
			if len(list) != 1 {
				t.Fatalf("%+v", list)
			}
			if got := scoreOf(t, list[0].PID); got != shared.Shell {
				t.Errorf("score %d, want %d", got, shared.Shell)
			}
		})
	}
}
