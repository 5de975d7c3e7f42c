package process

// UseOf returns the largest memory that the process had; macOS does not tell the traffic without
// rights.
func UseOf(pid int) Use { return Use{RSSBytes: HighWaterRSS(pid)} }
