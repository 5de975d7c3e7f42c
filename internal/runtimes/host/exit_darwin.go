package host

import (
	"context"

	"github.com/trl-dev/trl/internal/process"
)

// waitExit waits until a process that this process did not start has ended; it returns false if ctx
// ends first. The daemon notices the end of a runner by its connection; this only makes sure.
func waitExit(ctx context.Context, info process.Info) bool { return pollExit(ctx, info) }
