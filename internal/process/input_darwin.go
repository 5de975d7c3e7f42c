package process

// CanSeeReads is always ErrUnseen: this kernel tells nobody what a thread is blocked in.
func CanSeeReads(int) error { return ErrUnseen }

// BlockedReader finds nobody here.
func BlockedReader(int, FileID, bool) (Reader, bool) { return Reader{}, false }

// TerminalReader finds nobody here.
func TerminalReader(int, uint64) (Reader, bool) { return Reader{}, false }

// FileIDOf names no file here; nobody would compare it.
func FileIDOf(int) FileID { return FileID{} }
