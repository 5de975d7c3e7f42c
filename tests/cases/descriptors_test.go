package cases_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/cases"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestFewDescriptors takes a shell's descriptors away. It may have to be replaced; the
// command that does it ends, the next ones run, and nothing of TRL shows.
func TestFewDescriptors(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", *grace, "--log-level", "error"))
	service := daemon.Client(t)
	links := t.TempDir()
	for _, name := range cases.Tested {
		for n := range 17 {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				shell, err := cases.FindShell(name, links)
				if err != nil {
					t.Skip(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				info, err := service.SessionCreate(ctx, api.SessionCreateParams{Shell: shell.Path})
				if err != nil {
					t.Fatal(err)
				}
				run := func(command string) api.ExecResult {
					t.Helper()
					r := testkit.Must(service.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: command, TimeoutS: new(20.0)}))(t)
					// A shell that cannot undo the redirections of the command complains in its stderr.
					shown := r.Stdout + r.Stderr
					if r.TimedOut || strings.Contains(shown, daemon.RuntimeDir) || strings.Contains(shown, "/proc/") {
						t.Errorf("%q: timed out: %t, stdout %q, stderr %.200q, exit_code %d", command, r.TimedOut, r.Stdout, r.Stderr, r.ExitCode)
					}
					return r
				}
				set := "K=kept"
				if name == "fish" {
					set = "set -g K kept"
				}
				run(set)
				r := run(fmt.Sprintf("echo before >&2; ulimit -n %d; echo set", n))
				if r.Stdout != "set\n" || !strings.HasPrefix(r.Stderr, "before\n") || n >= 3 && r.Stderr != "before\n" {
					t.Errorf("the command: stdout %q, stderr %.200q (%d bytes), exit_code %d", r.Stdout, r.Stderr, len(r.Stderr), r.ExitCode)
				}
				if r.ExitCode != 0 && !r.ShellRestarted || n < 3 && !r.ShellRestarted {
					t.Errorf("exit_code %d, shell_restarted %t", r.ExitCode, r.ShellRestarted)
				}
				for range 3 {
					if r := run("echo $K"); r.Stdout != "kept\n" || r.Stderr != "" || r.ExitCode != 0 {
						t.Errorf("then: stdout %q, stderr %q, exit_code %d", r.Stdout, r.Stderr, r.ExitCode)
					}
				}
				if r := run("exit 3"); r.ExitCode != 3 {
					t.Errorf("exit 3: %d", r.ExitCode)
				}
				if r := run("echo $K; /bin/echo x"); r.Stdout != "kept\nx\n" || r.ExitCode != 0 {
					t.Errorf("at last: stdout %q, stderr %q, exit_code %d", r.Stdout, r.Stderr, r.ExitCode)
				}
				if _, err := service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: info.SessionID, Force: true}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestFewDescriptorsCancel stops a shell that can never undo the redirections of the command. It is
// replaced without the grace time, which here is longer than the test may last.
func TestFewDescriptorsCancel(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "600", "--log-level", "error"))
	service := daemon.Client(t)
	links := t.TempDir()
	for _, name := range cases.Tested {
		for n := range 3 {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				shell, err := cases.FindShell(name, links)
				if err != nil {
					t.Skip(err)
				}
				loop := "while :; do :; done"
				if name == "fish" {
					loop = "while true; end"
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				info := testkit.Must(service.SessionCreate(ctx, api.SessionCreateParams{Shell: shell.Path}))(t)
				// The loop writes nothing, so nothing but the cancellation ends it.
				x := testkit.Must(service.ExecStart(ctx, api.ExecParams{SessionID: info.SessionID, Command: fmt.Sprintf("ulimit -n %d; echo set; %s", n, loop)}))(t).ExecID
				testkit.Must(service.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{x}, OutputMatch: "^set$"}))(t)
				end := testkit.Must(service.ExecCancel(ctx, api.ExecCancelParams{ExecID: x}))(t).Outcome
				out := testkit.Must(service.ExecOutput(ctx, api.ExecOutputParams{ExecID: x, Stream: api.EventStdout}))(t)
				if end == nil || !end.Cancelled || end.ExitCode != api.ExitCancelled || out.Data != "set\n" {
					t.Errorf("the end %+v, stdout %q", end, out.Data)
				}
				r := testkit.Must(service.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: "echo next"}))(t)
				if r.Stdout != "next\n" || r.Stderr != "" || r.ExitCode != 0 {
					t.Errorf("then: stdout %q, stderr %.200q, exit_code %d", r.Stdout, r.Stderr, r.ExitCode)
				}
				testkit.Must(service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: info.SessionID, Force: true}))(t)
			})
		}
	}
}
