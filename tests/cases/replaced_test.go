package cases_test

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/cases"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestReplacedBeforeCommand: the directory and the environment of a command end with it, also
// if a new shell had to be started for it.
func TestReplacedBeforeCommand(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", *grace, "--log-level", "error"))
	service := daemon.Client(t)
	links := t.TempDir()
	for _, name := range cases.Tested {
		shell, err := cases.FindShell(name, links)
		if err != nil {
			t.Logf("SKIPPED: %s: %v", name, err)
			continue
		}
		pid := "echo $$"
		if name == "fish" {
			pid = "echo $fish_pid"
		}
		for _, files := range []int{0, 5, 9, 12, 16} { // 0: the shell is killed instead
			t.Run(fmt.Sprintf("%s/%d", name, files), func(t *testing.T) {
				info := testkit.Must(service.SessionCreate(t.Context(), api.SessionCreateParams{Shell: shell.Path, WorkingDir: "/usr"}))(t)
				run := func(p api.ExecParams, want string) string {
					t.Helper()
					p.SessionID = info.SessionID
					r := testkit.Must(service.ExecRun(t.Context(), p))(t)
					if want != "" && r.Stdout != want {
						t.Errorf("%q: stdout %q, want %q, stderr %q, exit_code %d", p.Command, r.Stdout, want, r.Stderr, r.ExitCode)
					}
					return r.Stdout
				}
				if files > 0 {
					run(api.ExecParams{Command: fmt.Sprintf("ulimit -n %d", files)}, "")
				} else {
					id := testkit.Must(strconv.Atoi(strings.TrimSpace(run(api.ExecParams{Command: pid}, ""))))(t)
					if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
					testkit.Eventually(t, "the shell is gone", func() bool { return syscall.Kill(id, 0) == syscall.ESRCH })
				}
				own := map[string]string{"LEAK": "leak"}
				run(api.ExecParams{Command: `echo "[$LEAK]"; pwd`, Env: own, WorkingDir: "/tmp"}, "[leak]\n/tmp\n")
				run(api.ExecParams{Command: `echo "[$LEAK]"; pwd`}, "[]\n/usr\n")
				testkit.Must(service.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: info.SessionID, Force: true}))(t)
			})
		}
	}
}
