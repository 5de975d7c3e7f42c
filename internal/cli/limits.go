package cli

import (
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// limitFlags set when a new session ends on its own.
type limitFlags struct{ lifetime, idleTimeout ui.SecondsFlag }

func (f *limitFlags) register(flags *pflag.FlagSet, session string) {
	flags.Var(&f.lifetime, "lifetime", "end "+session+" after this time, even if it is in use (0 is never)")
	flags.Var(&f.idleTimeout, "idle-timeout", "end "+session+" when it has been idle for this time (0 is never)")
}

func (f *limitFlags) fill(p *api.SessionCreateParams) {
	p.LifetimeS, p.IdleTimeoutS = f.lifetime.Value, f.idleTimeout.Value
}

// given returns the name of the first flag that the user set, "" for none.
func (f *limitFlags) given() string {
	switch {
	case f.lifetime.Value != nil:
		return "--lifetime"
	case f.idleTimeout.Value != nil:
		return "--idle-timeout"
	}
	return ""
}
