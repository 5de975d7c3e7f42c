package api_test

import (
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
)

// TestWaitTimes: both units mean the same time, and no time is too long for a duration.
func TestWaitTimes(t *testing.T) {
	const year = 366 * 24 * time.Hour
	for _, c := range []struct {
		seconds *float64
		ms      *int64
		want    time.Duration
		onLink  int64
	}{
		{seconds: ptr(1.5), want: 1500 * time.Millisecond, onLink: 1500},
		{ms: ptr(int64(1500)), want: 1500 * time.Millisecond, onLink: 1500},
		{seconds: ptr(0.0), want: 0, onLink: 0},
		{seconds: ptr(0.0001), want: 100 * time.Microsecond, onLink: 1}, // 0 would not wait at all
		{seconds: ptr(1e18), want: year, onLink: year.Milliseconds()},
		{ms: ptr(int64(1 << 62)), want: year, onLink: year.Milliseconds()},
	} {
		p := api.SessionWaitParams{TimeoutS: c.seconds, TimeoutMS: c.ms}
		if got := p.Timeout(); got == nil || *got != c.want {
			t.Errorf("%+v: %v, want %s", p, got, c.want)
		}
		if q := p.InMilliseconds(); q.TimeoutS != nil || q.TimeoutMS == nil || *q.TimeoutMS != c.onLink || q.IdleMS != nil {
			t.Errorf("%+v in milliseconds: %+v", p, q)
		}
		x := api.ExecWaitParams{IdleS: c.seconds, IdleMS: c.ms}
		if got := x.Idle(); got == nil || *got != c.want {
			t.Errorf("%+v: %v, want %s", x, got, c.want)
		}
	}
	if p := (api.ExecWaitParams{}); p.Idle() != nil || p.Timeout() != nil {
		t.Error("no time was given, but there is one")
	}
}

func ptr[T any](v T) *T { return &v }
