package process

// Pipes describes the pipes that a process has open.
type Pipes struct {
	// Holds means that the process has one of the named pipes open.
	Holds bool
	// Unfinished means that another pipe of the process has unread data, or that its other side
	// is closed. As a rule, such a process is about to end.
	Unfinished bool
	// Unseen means that the system does not report the pipes of the process.
	Unseen bool
}
