package process

// TrimProgram does nothing on macOS.
func TrimProgram() {}
