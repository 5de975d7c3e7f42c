package daemon

// freeMemory is not known: macOS compresses memory and swaps before it runs out.
func freeMemory() (int64, bool) { return 0, false }

// freeProcesses is not known.
func freeProcesses() (int64, bool) { return 0, false }
