package cli

import "os"

// widen does nothing: the system decides how much a pipe takes.
func widen(*os.File) {}
