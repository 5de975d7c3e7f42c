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
		for n := 3; n <= 16; n++ {
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
					if r.TimedOut || strings.Contains(r.Stdout+r.Stderr, daemon.RuntimeDir) || strings.Contains(r.Stdout+r.Stderr, "/proc/") {
						t.Errorf("%q: timed out: %t, stdout %q, stderr %q, exit_code %d", command, r.TimedOut, r.Stdout, r.Stderr, r.ExitCode)
					}
					return r
				}
				set := "K=kept"
				if name == "fish" {
					set = "set -g K kept"
				}
				run(set)
				run(fmt.Sprintf("ulimit -n %d", n))
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
