package process

// PipesOf does not know: macOS tells of vnodes only, and FIFOs that were removed have no path.
func PipesOf(int, ...FileID) Pipes { return Pipes{Holds: true, Unseen: true} }
