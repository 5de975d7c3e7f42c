package process

// Pipes is what a process has to do with pipes.
type Pipes struct {
	// Holds says that it has one of the pipes in question open.
	Holds bool
	// Unfinished says that another pipe has news for it: data that it has not read, or the
	// end of the other side. As a rule the process is about to end.
	Unfinished bool
	// Unseen says that the system does not tell.
	Unseen bool
}
