package dialogue

import (
	"context"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// maxReported is how many bytes of a text a report has at most.
const maxReported = 1024

// armReportLocked arms the timer after which open requests are reported to OnRequest, while no client
// follows the dialogue and no page of the console is open. Each request is reported once.
func (d *Dialogue) armReportLocked() {
	if d.registry.config.OnRequest == nil {
		return
	}
	if d.isWatchedLocked() || len(d.unreportedLocked()) == 0 {
		if d.reportTimer != nil {
			d.reportTimer.Stop()
			d.reportTimer = nil
		}
		return
	}
	if d.reportTimer != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d.registry.config.OnRequestAfter, func() { d.report(&timer) })
	d.reportTimer = timer
}

// isWatchedLocked reports whether a client looks that can show requests to a person.
func (d *Dialogue) isWatchedLocked() bool { return d.followers > 0 || d.registry.pages.Load() > 0 }

// unreportedLocked returns the open requests that were not reported.
func (d *Dialogue) unreportedLocked() (list []api.DialogueRequest) {
	if d.tracker == nil {
		return nil
	}
	for _, r := range d.tracker.Pending() {
		if !d.reported[r.RequestID] {
			list = append(list, r)
		}
	}
	return list
}

// report reports the open requests.
func (d *Dialogue) report(timer **time.Timer) {
	d.mu.Lock()
	if d.reportTimer != *timer {
		d.mu.Unlock()
		return
	}
	d.reportTimer = nil
	var reports []api.RequestReport
	if p := d.process; p != nil && !p.ending.isRequested() && d.state != api.DialogueError && !d.isWatchedLocked() {
		for _, r := range d.unreportedLocked() {
			reports = append(reports, d.reportOfLocked(r))
		}
		d.reported = map[string]bool{}
		for _, r := range d.tracker.Pending() {
			d.reported[r.RequestID] = true
		}
	}
	d.mu.Unlock()
	for _, r := range reports {
		d.registry.config.OnRequest(r)
	}
}

func (d *Dialogue) reportOfLocked(r api.DialogueRequest) api.RequestReport {
	report := api.RequestReport{
		Type: api.EventDialogueRequestOpened, ID: d.id + "/" + r.RequestID, DialogueID: d.id, Name: d.name, Agent: d.about.Params.Agent,
		RequestID: r.RequestID, Kind: r.Kind, Tool: beginning(r.Tool), Subject: beginning(r.Subject), Title: beginning(r.Title),
	}
	if r.OpenedAt != nil {
		report.OpenedAt = *r.OpenedAt
	}
	return report
}

// beginning cuts a text for a report.
func beginning(text string) string {
	if len(text) <= maxReported {
		return text
	}
	return strings.ToValidUTF8(text[:maxReported], "")
}

// pageLease is how long a page counts as open. It says again and again that it is, because the
// connection of a machine that sleeps, or of a tab that the browser froze, stays open for long.
const pageLease = 5 * time.Minute

// PageOpen says that, until ctx ends, a page of the console is open that a person sees or that notifies
// one. It shows every request, so none is reported meanwhile.
func (r *Registry) PageOpen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pageLease)
	r.countPages(1)
	context.AfterFunc(ctx, func() {
		cancel()
		r.countPages(-1)
	})
}

// countPages adds 1 or -1 to the number of open pages.
func (r *Registry) countPages(by int64) {
	r.pages.Add(by)
	for _, d := range r.all() {
		if !d.isRecovered() { // its mutex is held; endRecovery looks at the pages
			continue
		}
		d.mu.Lock()
		if d.process != nil {
			d.armReportLocked()
		}
		d.mu.Unlock()
	}
}

// Waits reports whether a request of a report still waits for an answer.
func (r *Registry) Waits(report api.RequestReport) bool {
	r.mu.Lock()
	d := r.dialogues[report.DialogueID]
	r.mu.Unlock()
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tracker == nil {
		return false
	}
	request, known := d.tracker.Request(report.RequestID)
	return known && request.How == ""
}
