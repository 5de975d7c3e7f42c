package process

import "runtime"

// UseOf returns the largest memory that the process had; macOS does not tell the traffic without
// rights.
func UseOf(pid int) Use { return Use{RSSBytes: HighWaterRSS(pid)} }

// OwnMemory returns how many bytes of memory this process alone has.
func OwnMemory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}
