package journal

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
)

// maxSkipped bounds how many commands the journal remembers as skipped: it has published events
// of later commands, but none of theirs.
const maxSkipped = 64

// published is the last state that the journal published for a live session. The journal compares
// the runner's reports with it, also after a restart of the daemon, and publishes only changes.
// It is part of the file: see beginning.
type published struct {
	Name  string           `json:"name,omitempty"`
	State api.SessionState `json:"state"`
	// Settings identifies the settings that were published; empty if an earlier version wrote the file.
	Settings string `json:"settings,omitempty"`
	// Away says that the session was published as unreachable.
	Away bool `json:"away,omitempty"`
	// Open has the commands that were published and are not closed, by id.
	Open map[string]api.ExecState `json:"open,omitempty"`
	// Newest is the highest number of a published command. Commands with lower numbers that are
	// neither in Open nor in Skipped were published to their end.
	Newest  int64   `json:"newest"`
	Skipped []int64 `json:"skipped,omitempty"`
}

// complete makes a published that was read from the file usable.
func (p *published) complete() {
	if p.Open == nil {
		p.Open = map[string]api.ExecState{}
	}
}

func (p *published) clone() *published {
	c := *p
	c.Open, c.Skipped = maps.Clone(p.Open), slices.Clone(p.Skipped)
	return &c
}

// stages are the states of an exec in their order.
var stages = []api.ExecState{api.ExecQueued, api.ExecRunning, api.ExecExited, api.ExecClosed}

// isNew reports whether the state of a command has not been published yet.
func (p *published) isNew(id string, state api.ExecState) bool {
	if before, open := p.Open[id]; open {
		return slices.Index(stages, state) > slices.Index(stages, before)
	}
	n := execNumber(id)
	return n > p.Newest || slices.Contains(p.Skipped, n)
}

// record notes that the state of a command is published.
func (p *published) record(id string, state api.ExecState) {
	n := execNumber(id)
	for skipped := max(p.Newest+1, n-maxSkipped); skipped < n; skipped++ {
		p.Skipped = append(p.Skipped, skipped)
	}
	if over := len(p.Skipped) - maxSkipped; over > 0 {
		p.Skipped = slices.Delete(p.Skipped, 0, over)
	}
	if i := slices.Index(p.Skipped, n); i >= 0 {
		p.Skipped = slices.Delete(p.Skipped, i, i+1)
	}
	p.Newest = max(p.Newest, n)
	if state == api.ExecClosed {
		delete(p.Open, id)
	} else {
		p.Open[id] = state
	}
}

// openExecs lists the commands that are not closed, oldest first.
func (p *published) openExecs() []string {
	return slices.SortedFunc(maps.Keys(p.Open), func(a, b string) int { return cmp.Compare(execNumber(a), execNumber(b)) })
}

// execNumber returns the number of a command in its session, the last part of its id.
func execNumber(id string) int64 {
	n, err := strconv.ParseInt(id[strings.LastIndexByte(id, '-')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
