package testkit

import "runtime"

// Heap returns the bytes in use on the heap after a collection.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // the first one only moves what a sync.Pool keeps aside
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
