package process

// PID returns the id of the process.
func (h *Handle) PID() int { return h.info.PID }

// alive asks the system whether the process is still alive.
func (h *Handle) alive() bool {
	now, ok := Stat(h.info.PID)
	return ok && now.same(h.info) && !now.Ended()
}
