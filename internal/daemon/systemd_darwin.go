package daemon

// selfPath is empty: this system has no path to the running program that outlives its file.
const selfPath = ""

// fromManager takes nothing: launchd hands over sockets in a way of its own.
func fromManager() (inherited, error) { return inherited{}, nil }

// notify does nothing: there is no such service manager here.
func notify(path, state string) {}
