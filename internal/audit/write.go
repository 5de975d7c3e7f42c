package audit

import (
	"fmt"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// repeated are the methods of which one person at a terminal makes many calls.
var repeated = map[string]bool{"session.input": true, "session.resize": true, "exec.input": true, "guest.send": true}

// run writes what is queued, until Close.
func (l *Log) run() {
	defer close(l.done)
	wake := l.wake             // nil while writing fails: the disk may be full
	var pause <-chan time.Time // set while writing fails, or while repeated calls are counted
	for {
		var reader chan struct{}
		select {
		case <-wake:
			// Calls that follow at once are written together: a write for each of them would
			// compete with it for the processor.
			select {
			case <-time.After(gatherTime):
			case reader = <-l.readers:
			case <-l.stop:
			}
		case <-pause:
		case reader = <-l.readers:
		case <-l.stop:
			l.flush(time.Time{})
			return
		}
		wake, pause = l.wake, nil
		if !l.flush(time.Now()) {
			wake, pause = nil, time.After(retryEvery)
		} else if len(l.repeats) > 0 {
			pause = time.After(retryEvery)
		}
		if reader != nil {
			close(reader)
		}
	}
}

// write writes what is queued now, so that a reader finds the calls that ended before it came.
func (l *Log) write() {
	written := make(chan struct{})
	select {
	case l.readers <- written:
		<-written
	case <-l.done:
	}
}

// flush writes the queue, and the counts whose time is over; all of them if now is zero. It reports
// whether everything is written.
func (l *Log) flush(now time.Time) bool {
	l.mu.Lock()
	batch := l.queue
	l.queue = nil
	lost, failed := l.lost, l.fault != nil
	l.mu.Unlock()
	if !failed { // else the batch has been counted before
		batch = l.count(batch)
	}
	batch = append(batch, l.over(now)...)
	if len(batch) == 0 && lost == 0 {
		return true
	}
	if lost > 0 {
		batch = append(batch, api.AuditRecord{At: time.Now().UTC(), Count: lost, Note: fmt.Sprintf("%d calls were not recorded: the log could not be written in time", lost)})
	}
	err := l.files.append(batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.fault == nil {
			l.cfg.Logger.Error("audit log cannot be written", "error", err, "required", l.cfg.Require)
		}
		l.fault = err
		if lost > 0 {
			batch = batch[:len(batch)-1]
		}
		l.queue = append(batch, l.queue...)
		if n := len(l.queue) - maxQueue; n > 0 {
			l.queue, l.lost, l.missing = l.queue[:maxQueue], l.lost+int64(n), l.missing+int64(n)
		}
		return false
	}
	if l.fault != nil {
		l.cfg.Logger.Info("audit log can be written again")
	}
	l.fault = nil
	l.lost -= lost
	l.last = batch[len(batch)-1].Seq
	l.recent = append(l.recent, batch...)
	// Not at every batch: the copy would take longer than everything else here.
	if n := len(l.recent) - maxRecent; n > maxRecent {
		l.recent = append([]api.AuditRecord(nil), l.recent[n:]...)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return true
}

// count takes repeated calls out of a batch. The first of a kind stays, with those that follow
// within repeatWindow only counted. With Content every call is recorded.
func (l *Log) count(batch []api.AuditRecord) []api.AuditRecord {
	kept := batch[:0]
	for _, r := range batch {
		if !repeated[r.Method] || r.Content != "" || r.Outcome == api.AuditStarted {
			kept = append(kept, r)
			continue
		}
		key := kindOf(&r)
		if p := l.repeats[key]; p != nil {
			n := p.record.Count
			p.record = r
			p.record.Count = n + 1
			continue
		}
		if len(l.repeats) < maxRepeats {
			l.repeats[key] = &repeat{until: time.Now().Add(repeatWindow)}
		}
		kept = append(kept, r)
	}
	return kept
}

// kindOf returns what two calls have in common that are counted together.
func kindOf(r *api.AuditRecord) string {
	words := []string{r.Method, r.Outcome, r.SessionID, r.ExecID}
	if c := r.Caller; c != nil {
		words = append(words, c.Transport, fmt.Sprint(c.PID), c.Address, c.Token, c.LoginID, c.Label)
	}
	return strings.Join(words, "\x00")
}

// over returns the counted calls whose time is over; all of them if now is zero.
func (l *Log) over(now time.Time) []api.AuditRecord {
	var list []api.AuditRecord
	for key, p := range l.repeats {
		if !now.IsZero() && now.Before(p.until) {
			continue
		}
		delete(l.repeats, key)
		if p.record.Count > 0 {
			list = append(list, p.record)
		}
	}
	return list
}
