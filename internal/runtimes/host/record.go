package host

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/state"
)

// record is what a later daemon needs to find a runner again, or the remains of it.
type record struct {
	state.Record
	// Dir is the private directory of the session.
	Dir string `json:"dir"`
	// RunnerPID and RunnerStart identify the process; 0 before it is started.
	RunnerPID   int    `json:"runner_pid"`
	RunnerStart uint64 `json:"runner_start"`
	BootID      string `json:"boot_id"`
	Cgroup      string `json:"cgroup,omitempty"`
	// Limits are the directories of cgroup v1 in which the session may have groups with limits.
	Limits []string `json:"limits,omitempty"`
}

func (rt *Runtime) writeRecord(r record) error { return rt.state.WriteRecord(r.SessionID, r) }

// checkRecord refuses a record whose directory is not that of its session: the directory is
// removed with the session.
func checkRecord(r record) error {
	if filepath.Base(r.Dir) != r.SessionID {
		return errors.New("is not that of session " + r.SessionID)
	}
	return nil
}

// removeFiles removes the files of a session, the record last: if the removal is interrupted, the
// next daemon repeats it.
func (r *runner) removeFiles() {
	r.mu.Lock()
	r.removed = true
	r.mu.Unlock()
	if dir := r.rt.place.SpillDir; dir != "" {
		if err := os.RemoveAll(link.PrivateDir(dir, r.rec.SessionID)); err != nil {
			r.rt.log.Warn("private directory of a session cannot be removed", "session_id", r.rec.SessionID, "error", err)
		}
	}
	if err := os.RemoveAll(r.rec.Dir); err != nil {
		r.rt.log.Warn("session directory cannot be removed", "session_id", r.rec.SessionID, "error", err)
	}
	if err := r.rt.state.RemoveRecord(r.rec.SessionID); err != nil {
		r.rt.log.Warn("session record cannot be removed", "session_id", r.rec.SessionID, "error", err)
	}
}
