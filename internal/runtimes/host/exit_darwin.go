package host

import (
	"context"

	"github.com/trl-dev/trl/internal/process"
)

// waitExit waits until a process that is not our child has ended; false when ctx
// ends first. The end of a runner is noticed by its connection; this only makes sure.
func waitExit(ctx context.Context, info process.Info) bool { return pollExit(ctx, info) }
