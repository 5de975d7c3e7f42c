package process

// CanSeeReads returns ErrUnseen: macOS does not report the system call in which a thread is blocked.
func CanSeeReads(int) error { return ErrUnseen }

// BlockedReader returns false on macOS.
func BlockedReader(int, FileID, bool) (Reader, bool) { return Reader{}, false }

// TerminalReader returns false on macOS.
func TerminalReader(int, uint64) (Reader, bool) { return Reader{}, false }

// FileIDOf returns the zero value on macOS, where FileIDs are not compared.
func FileIDOf(int) FileID { return FileID{} }
