// Package hook reports requests of agents to the world outside, while no client looks at them: it runs
// a command, and posts a signed message to a URL. Neither delays a dialogue.
package hook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

const (
	// queued is how many reports may wait for the command, and how many for the URL.
	queued = 64

	defaultTimeout = 10 * time.Second
	defaultPause   = time.Second
)

// Config configures a Hook.
type Config struct {
	// Command is run by /bin/sh for each report, which it reads from its stdin; empty for none.
	Command string
	// Start starts the command.
	Start func(process.Spec) (*process.Process, error)
	// URL is where reports are posted; empty for nowhere.
	URL string
	// Key signs the posted reports.
	Key []byte
	// Waits reports whether a request still waits for an answer. A report is dropped if it does not.
	Waits  func(api.RequestReport) bool
	Logger *slog.Logger

	// Timeout bounds one attempt to post and one run of the command. 0: 10 s.
	Timeout time.Duration
	// Pause is the time before the second attempt to post. Each further pause is twice as long.
	// 0: 1 s.
	Pause time.Duration
}

// Hook reports requests. It is safe for concurrent use.
//
// Goroutines: one for the command and one for the URL. Close waits for both.
type Hook struct {
	cfg    Config
	ways   []*way
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// way is one of the ways to report: its queue, and what delivers a report.
type way struct {
	name    string
	queue   chan api.RequestReport
	deliver func(context.Context, api.RequestReport) error
}

// New starts a Hook.
func New(c Config) *Hook {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Pause == 0 {
		c.Pause = defaultPause
	}
	h := &Hook{cfg: c}
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(context.Background())
	if c.Command != "" {
		h.add(ctx, "command", h.run)
	}
	if c.URL != "" {
		h.add(ctx, "url", newWebhook(c).deliver)
	}
	return h
}

func (h *Hook) add(ctx context.Context, name string, deliver func(context.Context, api.RequestReport) error) {
	w := &way{name, make(chan api.RequestReport, queued), deliver}
	h.ways = append(h.ways, w)
	h.tasks.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case r := <-w.queue:
				h.report(ctx, w, r)
			}
		}
	})
}

// report delivers one report, unless the request was answered meanwhile.
func (h *Hook) report(ctx context.Context, w *way, r api.RequestReport) {
	if ctx.Err() != nil || !h.cfg.Waits(r) {
		return
	}
	log := h.cfg.Logger.With("to", w.name, "dialogue_id", r.DialogueID, "request_id", r.RequestID)
	switch err := w.deliver(ctx, r); {
	case err == nil:
		log.Debug("request reported")
	case ctx.Err() == nil:
		log.Warn("request could not be reported", "error", err)
	}
}

// Report queues a report and returns at once. If too many wait already, the report is dropped.
func (h *Hook) Report(r api.RequestReport) {
	for _, w := range h.ways {
		select {
		case w.queue <- r:
		default:
			h.cfg.Logger.Warn("request is not reported: too many reports wait", "to", w.name, "dialogue_id", r.DialogueID, "request_id", r.RequestID)
		}
	}
}

// Close stops the deliveries. Reports that wait are dropped.
func (h *Hook) Close() {
	h.cancel()
	h.tasks.Wait()
}
