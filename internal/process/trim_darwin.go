package process

// TrimProgram does nothing here.
func TrimProgram() {}
