package soak_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestIdleMeansNothingRuns: an unused shell ends if nothing else runs in it. Terminals and programs end with their program alone.
func TestIdleMeansNothingRuns(t *testing.T) {
	daemon := trltest.Start(t, trltest.Env("TRL_IDLE_TIMEOUT_S=1"))
	service := daemon.Client(t)
	for _, shell := range []string{"sh", "bash"} {
		create(t, service, api.SessionCreateParams{Name: "works-" + shell, Shell: shell})
		run(t, service, "works-"+shell, "sleep 1000 >/dev/null 2>&1 &")
	}
	create(t, service, api.SessionCreateParams{Name: "terminal", Kind: api.KindTerminal, Command: []string{"cat"}})
	create(t, service, api.SessionCreateParams{Name: "program", Kind: api.KindProgram, Command: []string{"cat"}})
	for range 2 { // one after another, so that the others had their time more than once
		idle := create(t, service, api.SessionCreateParams{}).SessionID
		testkit.EventuallyNoProblem(t, func() string {
			info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: idle})
			if err != nil || info.State != api.SessionTerminated || info.Cause != "idle for 1s (idle_timeout_s)" {
				return fmt.Sprintf("%+v, %v", info, err)
			}
			return ""
		})
	}
	for _, name := range []string{"works-sh", "works-bash", "terminal", "program"} {
		info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: name})
		if err != nil || info.State == api.SessionTerminated || info.EndsInS != nil {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		if name == "works-sh" || name == "works-bash" {
			if len(info.Processes) == 0 {
				t.Errorf("%s: nothing runs", name)
			}
			run(t, service, name, "kill $!")
			testkit.EventuallyNoProblem(t, func() string {
				info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: info.SessionID})
				if err != nil || info.State != api.SessionTerminated {
					return fmt.Sprintf("%+v, %v", info, err)
				}
				return ""
			})
		}
	}
}
