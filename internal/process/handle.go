package process

// PID is the id of the process that is held.
func (h *Handle) PID() int { return h.info.PID }

// alive asks the system whether the process that is held still runs.
func (h *Handle) alive() bool {
	now, ok := Stat(h.info.PID)
	return ok && now.same(h.info) && !now.Ended()
}
