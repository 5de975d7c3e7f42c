package runner

// widen does nothing: the pipes of this system widen themselves.
func widen(int) {}
