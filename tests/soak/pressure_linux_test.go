package soak_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestPressure: a machine without room for another session refuses it, names the cause, and
// answers other calls.
func TestPressure(t *testing.T) {
	for setting, reason := range map[string]string{"min-free-memory-bytes": "memory", "min-free-processes": "processes", "min-free-disk-bytes": "disk"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			service := trltest.Start(t, trltest.Args("--"+setting, "1000000000000000")).Client(t)
			_, err := service.SessionCreate(t.Context(), api.SessionCreateParams{})
			if want := api.Errorf(api.CodeResourcePressure, "").Because(reason); !errors.Is(err, want) || !strings.Contains(err.Error(), strings.ReplaceAll(setting, "-", "_")) {
				t.Errorf("a new session: %v", err)
			}
			if list, err := service.SessionList(t.Context(), api.SessionListParams{}); err != nil || len(list.Sessions) != 0 {
				t.Errorf("then the sessions are %+v, %v", list.Sessions, err)
			}
		})
	}
}
