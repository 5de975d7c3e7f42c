package server

// fileWatch does nothing here: kqueue(2) watches open files, and a socket's file cannot be
// opened. Watch looks at it now and then instead.
type fileWatch struct{}

func newFileWatch(<-chan struct{}) *fileWatch { return &fileWatch{} }

func (*fileWatch) arm(string) bool { return false }

func (*fileWatch) wait() {}

func (*fileWatch) close() {}
