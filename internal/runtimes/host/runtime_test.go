package host_test

import (
	"testing"

	"github.com/trl-dev/trl/internal/runtimes/runtimetest"
	"github.com/trl-dev/trl/internal/session"
)

func TestRuntime(t *testing.T) { runtimetest.Run(t, thisMachine) }

func TestSessions(t *testing.T) { runtimetest.RunSessions(t, thisMachine) }

func thisMachine(t *testing.T) runtimetest.Place {
	p := newPlace(t)
	return runtimetest.Place{
		Open: func(t *testing.T) (session.Runtime, func()) {
			rt, _, leave := p.open()
			return rt, leave
		},
		WantEmpty: func(*testing.T) { p.wantEmpty() },
	}
}
