package process

// resetLibrarySignals does nothing on macOS.
func resetLibrarySignals() {}
