package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestLimitsOfAPlaceAreUndone: a place gets its old limits back if an older runner ignores the change, and
// if the engine cannot carry out all of it.
func TestLimitsOfAPlaceAreUndone(t *testing.T) {
	twoRuntimes(t, session.Config{}, func(t *testing.T, w world, far *sessiontest.Runtime) {
		var steps []string
		errs := map[string]error{}
		far.SetLimit = func(_ context.Context, limit string, value float64) error {
			steps = append(steps, fmt.Sprintf("%s=%v", limit, value))
			return errs[limit]
		}
		w.create(api.SessionCreateParams{Name: "there", Runtime: "docker:alpine"})
		set := func(mode api.LimitsMode) (string, error) {
			steps = nil
			p := api.SessionSetParams{Limits: &api.Limits{MemoryBytes: new(int64(10)), Pids: new(int64(20)), OpenFiles: new(int64(30))}, LimitsMode: mode}
			_, err := w.Set(t.Context(), w.get("there"), p)
			return strings.Join(steps, " "), err
		}
		if got, err := set(""); got != "memory_bytes=10 pids=20 memory_bytes=0 pids=0" || err != nil {
			t.Errorf("with an older runner: %s, %v", got, err)
		}
		errs[api.LimitPids] = api.Errorf(api.CodeLimitUnavailable, "not so few")
		got, err := set("")
		testkit.WantError(t, err, api.CodeLimitUnavailable, "not so few")
		if got != "memory_bytes=10 pids=20 memory_bytes=0" {
			t.Errorf("with an engine that refuses: %s", got)
		}
		errs[api.LimitPids] = api.Errorf(api.CodeRuntimeUnavailable, "no engine")
		got, err = set(api.LimitsBestEffort)
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, "no engine")
		if got != "memory_bytes=10 pids=20 memory_bytes=0" {
			t.Errorf("with an engine that cannot be reached: %s", got)
		}
	})
}
