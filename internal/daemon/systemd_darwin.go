package daemon

// selfPath is no path: there is none for the program that runs when its file is gone.
const selfPath = ""

// fromManager takes nothing: launchd hands over sockets in a way of its own.
func fromManager() (inherited, error) { return inherited{}, nil }

// notify does nothing: there is no such service manager here.
func notify(path, state string) {}
