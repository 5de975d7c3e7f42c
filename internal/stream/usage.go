package stream

import (
	"context"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
)

// UsageConfig says what a subscriber to the usage of sessions gets.
type UsageConfig struct {
	StreamID string
	Interval time.Duration
	// Measure returns what each session uses now.
	Measure func(ctx context.Context) ([]api.SessionUsage, error)
}

// NewUsage makes the stream of usage.subscribe. It measures when Recv is called, so that nothing is
// measured for a reader that does not read.
func NewUsage(ctx context.Context, c UsageConfig) api.Stream {
	u := &usage{UsageConfig: c, before: map[string]sample{}}
	u.ctx, u.cancel = context.WithCancel(ctx)
	return u
}

// usage is one subscription. It has no goroutine. Only one goroutine at a time may call Recv; Close
// may be called at any time.
type usage struct {
	UsageConfig
	ctx    context.Context
	cancel context.CancelFunc

	// Used by Recv alone.
	seq    int64
	next   time.Time
	before map[string]sample // by session
}

type sample struct {
	at time.Time
	ms int64
}

// Start is the immediate answer.
func (u *usage) Start() api.StreamStart { return api.StreamStart{StreamID: u.StreamID} }

// Close ends the subscription.
func (u *usage) Close() error {
	u.cancel()
	return nil
}

// Recv waits until the next measurement is due, and returns it.
func (u *usage) Recv() (api.StreamEvent, error) {
	timer := time.NewTimer(time.Until(u.next))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-u.ctx.Done():
		return api.StreamEvent{}, u.ctx.Err()
	}
	now := time.Now()
	u.next = now.Add(u.Interval)
	list, err := u.Measure(u.ctx)
	if err != nil {
		return api.StreamEvent{}, err
	}
	seen := map[string]sample{}
	for i := range list {
		s := &list[i]
		this := sample{now, s.UserMS + s.SystemMS}
		if before, ok := u.before[s.SessionID]; ok && now.After(before.at) {
			percent := max(0, float64(this.ms-before.ms)*100/float64(now.Sub(before.at).Milliseconds()+1))
			s.CPUPercent = &percent
		}
		seen[s.SessionID] = this
	}
	u.before = seen
	u.seq++
	at := now.UTC()
	return api.StreamEvent{StreamID: u.StreamID, Seq: u.seq, Type: api.EventUsage, At: &at, Sessions: list}, nil
}

// MeasureAll measures sessions at the same time, and leaves out those that do not answer.
func MeasureAll(ctx context.Context, sessions []func(context.Context) (api.SessionUsage, error)) []api.SessionUsage {
	results := make([]*api.SessionUsage, len(sessions))
	var tasks sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for i, measure := range sessions {
		tasks.Go(func() {
			if u, err := measure(ctx); err == nil {
				results[i] = &u
			}
		})
	}
	tasks.Wait()
	list := []api.SessionUsage{}
	for _, r := range results {
		if r != nil {
			list = append(list, *r)
		}
	}
	return list
}
