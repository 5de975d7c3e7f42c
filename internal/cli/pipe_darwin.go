package cli

import "os"

// widen does nothing: macOS sets the size of a pipe itself.
func widen(*os.File) {}
