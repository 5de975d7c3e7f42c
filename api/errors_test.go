package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestReasons: a reason tells apart errors with one code, also after a trip over the wire; the
// text decides nothing.
func TestReasons(t *testing.T) {
	travelled := func(e *api.Error) *api.Error {
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got := new(api.Error)
		if err := json.Unmarshal(data, got); err != nil {
			t.Fatal(err)
		}
		got.Message = "in other words"
		return got
	}
	starting, ending, stopped := travelled(api.ErrDaemonStarting), travelled(api.ErrDaemonEnding), travelled(api.ErrDaemonStopped)
	for _, c := range []struct {
		err, target error
		want        bool
	}{
		{starting, api.ErrDaemonStarting, true},
		{starting, api.ErrDaemonEnding, false},
		{ending, api.ErrDaemonEnding, true},
		{ending, api.ErrDaemonStarting, false},
		{stopped, api.ErrDaemonEnding, true},
		{starting, api.ErrRuntimeUnavailable, true},
		{api.Errorf(api.CodeRuntimeUnavailable, "the daemon is starting"), api.ErrDaemonStarting, false},
		{fmt.Errorf("wrapped: %w", ending), api.ErrDaemonEnding, true},
		{api.AsError(context.Canceled), api.ErrCancelled, true},
		{api.AsError(context.DeadlineExceeded), api.ErrResourcePressure, false},
	} {
		if got := errors.Is(c.err, c.target); got != c.want {
			t.Errorf("%v is %v: %v", c.err, c.target, got)
		}
	}
	if !api.SessionsEnded(stopped) || api.SessionsEnded(ending) {
		t.Error("the end of the sessions")
	}
}
