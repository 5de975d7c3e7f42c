package soak_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// double is a command that starts a process which has left everything: its parents,
// its process group and its session. It holds no output.
func double(number string) string {
	return "sh -c '(setsid sleep " + number + " </dev/null >/dev/null 2>&1 &)'"
}

// TestStrays ends commands and sessions in every way. The processes that they started end with them,
// and the processes of earlier commands do not.
func TestStrays(t *testing.T) {
	for mode, opts := range map[string][]trltest.Option{"normal": nil, "scan": {trltest.Scan()}} {
		t.Run(mode, func(t *testing.T) {
			daemon := trltest.Start(t, append(opts, trltest.Args("--kill-grace-s", "1"))...)
			for _, shell := range shells(t, t.TempDir()) {
				t.Run(shell[strings.LastIndexByte(shell, '/')+1:], func(t *testing.T) { straysOfShell(t, daemon, shell, mode) })
			}
			for _, kind := range []api.SessionKind{api.KindProgram, api.KindTerminal} {
				t.Run(string(kind), func(t *testing.T) { straysOfProgram(t, daemon, kind) })
			}
			t.Run("shutdown", func(t *testing.T) {
				service := daemon.Client(t)
				for range 3 {
					run(t, service, create(t, service, api.SessionCreateParams{}).SessionID, double("29.5"))
				}
				started(t, "29.5", 3)
				daemon.Stop(t)
				if left := matching(`^sleep 29\.5$`); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		})
	}
}

// started waits until so many of the processes run.
func started(t *testing.T, number string, want int) {
	t.Helper()
	testkit.EventuallyNoProblem(t, func() string {
		if n := len(matching("^sleep " + strings.ReplaceAll(number, ".", `\.`) + "$")); n != want {
			return fmt.Sprintf("%d of sleep %s, want %d", n, number, want)
		}
		return ""
	})
}

func straysOfShell(t *testing.T, daemon *trltest.Daemon, shell, mode string) {
	ctx, service := context.Background(), daemon.Client(t)
	info := create(t, service, api.SessionCreateParams{Shell: shell})
	id := info.SessionID
	run(t, service, id, double("29.1"))
	started(t, "29.1", 1)
	if mode == "scan" {
		if d, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: id}); err != nil || d.Enforcement != "scan" || !strings.Contains(fmt.Sprint(d.Processes), "sleep 29.1") {
			t.Errorf("session.info: enforcement %q, processes %v, %v", d.Enforcement, d.Processes, err)
		}
	}
	limit := 1.0
	r, err := service.ExecRun(ctx, api.ExecParams{SessionID: id, Command: double("29.2") + "; sleep 29.2", TimeoutS: &limit})
	if err != nil || !r.TimedOut || len(r.Killed) < 2 {
		t.Errorf("time-out: %+v, %v", r, err)
	}
	started(t, "29.2", 0)
	stream := begin(t, daemon, id, double("29.3")+"; echo up; sleep 29.3")
	defer stream.Close()
	started(t, "29.3", 2)
	if _, err := service.ExecCancel(ctx, api.ExecCancelParams{SessionID: id}); err != nil {
		t.Errorf("exec.cancel: %s", err)
	}
	started(t, "29.3", 0)
	started(t, "29.1", 1) // that of an earlier command
	destroyed, err := service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: id})
	if err != nil || !strings.Contains(fmt.Sprint(destroyed.Killed), "sleep 29.1") {
		t.Errorf("session.destroy: %+v, %v", destroyed, err)
	}
	started(t, "29.1", 0)

	forced := create(t, service, api.SessionCreateParams{Shell: shell}).SessionID
	run(t, service, forced, double("29.4"))
	started(t, "29.4", 1)
	if _, err := service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: forced, Force: true}); err != nil {
		t.Errorf("session.destroy: %s", err)
	}
	started(t, "29.4", 0)
}

// straysOfProgram lets a program end by itself, and another one by destroy.
func straysOfProgram(t *testing.T, daemon *trltest.Daemon, kind api.SessionKind) {
	ctx, service := context.Background(), daemon.Client(t)
	create(t, service, api.SessionCreateParams{Kind: kind, Command: []string{"sh", "-c", double("29.6") + "; sleep 0.2"}})
	lives := create(t, service, api.SessionCreateParams{Kind: kind, Command: []string{"sh", "-c", double("29.7") + "; sleep 29.7"}}).SessionID
	started(t, "29.7", 2)
	started(t, "29.6", 0)
	if _, err := service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: lives}); err != nil {
		t.Errorf("session.destroy: %s", err)
	}
	started(t, "29.7", 0)
}
