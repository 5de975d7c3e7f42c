package sessiontest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/internal/runtimes/runtimetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRuntime(t *testing.T) {
	runtimetest.Run(t, func(*testing.T) runtimetest.Place {
		var rt sessiontest.Runtime
		return runtimetest.Place{
			Open: func(*testing.T) (session.Runtime, func()) { return &rt, func() {} },
			WantEmpty: func(t *testing.T) {
				if left := rt.Runners(); len(left) != 0 {
					t.Errorf("%d runners are left", len(left))
				}
			},
		}
	})
}
