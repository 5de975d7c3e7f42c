package shell

import "time"

// Checkpoint has the shell tell its state, so that it can be restored even when
// a later command ends the shell without warning (kill -9, exec, a crash). It
// costs 40 to 700 µs, so it is taken between commands, as far as the budget
// allows, and in any case before a command that looks dangerous.
func (s *Shell) Checkpoint() {
	if !s.dirty || s.dead() {
		return
	}
	begun := time.Now()
	s.exitDump = nil
	s.patient = true
	err := s.bookkeep(s.dialect.source(s.dir.dumpFile())+"\n", begun.Add(bookkeepTime))
	s.patient = false
	s.readState()
	s.stateBuf = nil // of a dump that is too large, or cut off
	if err == nil && s.exitDump != nil {
		s.checkpoint, s.dirty = s.exitDump, false
	}
	if !s.dead() {
		s.exitDump = nil
	}
	s.budget.spend(min(time.Since(begun), mostSpent))
}

// CheckpointDue reports whether a checkpoint would be worth its price now.
func (s *Shell) CheckpointDue() bool { return s.dirty && s.budget.allows(time.Now()) }

// checkpointBudget bounds the time spent on checkpoints right after a command, when
// the next one may be on its way, with a large advance: a hundred commands in a row
// are followed by one each, a loop of thousands is not slowed down. A session that
// is idle for a moment gets one in any case.
type checkpointBudget struct {
	saved time.Duration
	at    time.Time
}

const (
	budgetAdvance = 20 * time.Millisecond
	budgetShare   = 200
	// mostSpent is what a checkpoint costs at most. What takes longer takes it on a busy
	// machine, where a single checkpoint would use up the budget, and the state of the
	// next commands would be lost with their shell.
	mostSpent = time.Millisecond
)

func newCheckpointBudget() checkpointBudget {
	return checkpointBudget{saved: budgetAdvance, at: time.Now()}
}

func (b *checkpointBudget) allows(now time.Time) bool {
	b.saved = min(b.saved+now.Sub(b.at)/budgetShare, budgetAdvance)
	b.at = now
	return b.saved > 0
}

func (b *checkpointBudget) spend(d time.Duration) { b.saved -= d }
