package shell

import "time"

// Checkpoint makes the shell report its state, so that the state can be restored even if a later
// command ends the shell without warning (kill -9, exec, a crash). A checkpoint costs 40 to
// 700 µs, so the caller takes it between commands, as far as the budget allows, and Run takes one
// before each command that looks dangerous.
func (s *Shell) Checkpoint() {
	if !s.dirty || s.dead() {
		return
	}
	begun := time.Now()
	s.exitDump = nil
	s.dumping = true
	err := s.bookkeep(s.dialect.source(s.dir.dumpFile())+"\n", begun.Add(bookkeepTime))
	s.dumping = false
	s.readState()
	s.stateBuf = nil // the rest of a dump that was too large or cut off
	if err == nil && s.exitDump != nil {
		s.checkpoint, s.dirty = s.exitDump, false
	}
	if !s.dead() {
		s.exitDump = nil
	}
	s.budget.spend(min(time.Since(begun), mostSpent))
}

// CheckpointDue reports whether a checkpoint is needed and the budget allows it now.
func (s *Shell) CheckpointDue() bool { return s.dirty && s.budget.allows(time.Now()) }

// checkpointBudget limits the time spent on checkpoints right after a command, when the next
// command may already be waiting. It starts with a large credit: a hundred commands in a row get
// a checkpoint each, but a loop of thousands is not slowed down. A session that is idle for a
// moment gets a checkpoint regardless of the budget.
type checkpointBudget struct {
	saved time.Duration // credit; negative when overdrawn
	at    time.Time     // when saved was last computed
}

const (
	budgetAdvance = 20 * time.Millisecond // the initial and the largest credit
	budgetShare   = 200                   // one part in budgetShare of the elapsed time is credited
	// mostSpent is the most that one checkpoint costs. A checkpoint takes longer only on a
	// busy machine. It would use up the whole budget there, and the state that the next
	// commands set would be lost with their shell.
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
