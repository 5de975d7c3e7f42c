package soak_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestDaemonKilled kills the daemon with SIGKILL under load. The sessions go on,
// and the next daemon has them again.
func TestDaemonKilled(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "1"))
	service := daemon.Client(t)
	list := shells(t, t.TempDir())
	type kept struct{ id, value string }
	var idle, busy []kept
	for i := range 2 * len(list) {
		shell := list[i%len(list)]
		k := kept{value: fmt.Sprintf("value-%d", i)}
		k.id = create(t, service, api.SessionCreateParams{Shell: shell, Name: fmt.Sprintf("n%d", i)}).SessionID
		set := "V=" + k.value
		if strings.HasSuffix(shell, "fish") {
			set = "set -g V " + k.value
		}
		run(t, service, k.id, set)
		if i < len(list) {
			idle = append(idle, k)
			continue
		}
		busy = append(busy, k)
		defer begin(t, daemon, k.id, "echo up; yes flood-28.1 | head -c 50000000; sleep 28.1").Close()
	}

	daemon.Kill9()
	for _, k := range append(idle, busy...) {
		if left := sessionProcesses(k.id); len(left) < 2 {
			t.Errorf("session %s: runner and shell must live on, there is %v", k.id, left)
		}
	}
	daemon.Restart(t)
	service = daemon.Client(t)
	ctx := context.Background()
	all, err := service.SessionList(ctx, api.SessionListParams{})
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Sessions) != len(idle)+len(busy) {
		t.Errorf("%d sessions are back, must be %d", len(all.Sessions), len(idle)+len(busy))
	}
	for _, s := range all.Sessions {
		if info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: s.SessionID}); err != nil || info.RunnerPID == 0 || info.Name == "" {
			t.Errorf("session.info %s: %+v, %v", s.SessionID, info, err)
		}
	}
	for _, k := range idle {
		says(t, service, k.id, "echo $V", k.value+"\n")
	}
	for _, k := range busy {
		if _, err := service.ExecCancel(ctx, api.ExecCancelParams{SessionID: k.id}); err != nil && !errors.Is(err, api.ErrExecNotFound) {
			t.Errorf("exec.cancel in %s: %s", k.id, err)
		}
		says(t, service, k.id, "echo $V", k.value+"\n")
	}
	gone(t, `flood-28\.1|^sleep 28\.1$`)
	for _, k := range append(idle, busy...) {
		destroy(t, service, k.id)
	}
	if left := below(daemon.PID); len(left) > 0 {
		t.Errorf("below the daemon: %v", left)
	}
}

// sessionProcesses are those that carry the marker of a session.
func sessionProcesses(id string) []process {
	var list []process
	for _, p := range processes() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if err == nil && strings.Contains("\x00"+string(env), "\x00"+api.SessionMarker+"="+id+"\x00") {
			list = append(list, p)
		}
	}
	return list
}

// orphans start processes that hide in every way, and one in the foreground. The
// number tells the tests apart.
func orphans(number string) string {
	text := strings.ReplaceAll("sh -c '(setsid sleep N </dev/null >/dev/null 2>&1 &)'; "+
		"sh -c '(env -i setsid sleep N </dev/null >/dev/null 2>&1 &)'; "+
		"sh -c 'nohup sh -c \"trap \\\"\\\" TERM HUP; sleep N & wait\" >/dev/null 2>&1 &'; "+
		"echo up; sleep N", "N", number)
	if os.Getenv(trltest.ScanVariable) != "" {
		// Nothing finds who has left the tree and cleared its environment.
		text = strings.ReplaceAll(text, "env -i ", "")
	}
	return text
}

// TestRunnerKilled kills one runner with SIGKILL. Its session is terminated at
// once, everything it had started is ended, and the session beside it goes on.
func TestRunnerKilled(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "1"))
	service := daemon.Client(t)
	other := create(t, service, api.SessionCreateParams{})
	run(t, service, other.SessionID, "V=kept; sleep 28.25 &")
	for _, shell := range shells(t, t.TempDir()) {
		t.Run(shell[strings.LastIndexByte(shell, '/')+1:], func(t *testing.T) {
			victim := create(t, service, api.SessionCreateParams{Shell: shell})
			stream := begin(t, daemon, victim.SessionID, orphans("28.2"))
			defer stream.Close()
			info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: victim.SessionID})
			if err != nil {
				t.Fatal(err)
			}
			testkit.EventuallyNoProblem(t, func() string {
				if n := len(matching(`^sleep 28\.2$`)); n < 4 {
					return fmt.Sprintf("only %d processes have started", n)
				}
				return ""
			})
			if err := syscall.Kill(info.RunnerPID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			testkit.EventuallyNoProblem(t, func() string {
				info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: victim.SessionID})
				if err != nil || info.State != api.SessionTerminated || info.Cause == "" {
					return fmt.Sprintf("session.info: state %q, cause %q, %v", info.State, info.Cause, err)
				}
				return ""
			})
			gone(t, `sleep 28\.2$`)
			if _, err := service.ExecRun(context.Background(), api.ExecParams{SessionID: victim.SessionID, Command: "true"}); !errors.Is(err, api.ErrSessionTerminated) {
				t.Errorf("exec.run in a terminated session: %v", err)
			}
			says(t, service, other.SessionID, "echo $V", "kept\n")
			if len(matching(`^sleep 28\.25$`)) != 1 {
				t.Error("the job of the other session is gone")
			}
		})
	}
}

// TestBothKilled kills runner and daemon. The next daemon ends the orphans that
// carry the session's marker; it cannot find those that cleared their environment.
func TestBothKilled(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "1"))
	service := daemon.Client(t)
	victim := create(t, service, api.SessionCreateParams{})
	defer begin(t, daemon, victim.SessionID, strings.ReplaceAll(orphans("28.3"), "env -i ", "")).Close()
	info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: victim.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	daemon.Kill9()
	if err := syscall.Kill(info.RunnerPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallyNoProblem(t, func() string {
		if n := len(matching(`^sleep 28\.3$`)); n < 4 {
			return fmt.Sprintf("only %d orphans; the test proves nothing", n)
		}
		return ""
	})
	daemon.Restart(t)
	gone(t, `sleep 28\.3$`)
	service = daemon.Client(t)
	testkit.EventuallyNoProblem(t, func() string {
		list, err := service.SessionList(context.Background(), api.SessionListParams{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Sessions {
			if s.State != api.SessionTerminated {
				return fmt.Sprintf("session %s is %s", s.SessionID, s.State)
			}
		}
		return ""
	})
	says(t, service, create(t, service, api.SessionCreateParams{}).SessionID, "echo fine", "fine\n")
}

// TestShutdownBusy stops a daemon with twenty busy sessions. Start checks that it
// exits with 0 and that no process and no socket is left.
func TestShutdownBusy(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "1"))
	service := daemon.Client(t)
	list := shells(t, t.TempDir())
	commands := []string{
		"echo up; sleep 28.4",
		"echo up; sh -c 'trap \"\" TERM INT HUP; while :; do sleep 28.4; done'",
		orphans("28.4"),
		"echo up; sleep 28.4 | cat",
		"echo up; yes 28.4",
	}
	for i := range 20 {
		s := create(t, service, api.SessionCreateParams{Shell: list[i%len(list)]})
		defer begin(t, daemon, s.SessionID, commands[i%len(commands)]).Close()
	}
	daemon.Stop(t)
	if left := matching(`28\.4$`); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if left := append(files(daemon.RuntimeDir), files(daemon.StateDir)...); strings.Contains(strings.Join(left, "\n"), "s-") {
		t.Errorf("files of sessions are left behind: %q", left)
	}
}
