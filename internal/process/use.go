package process

// Use is the memory of a process now, and its traffic to disks so far.
type Use struct{ RSSBytes, ReadBytes, WrittenBytes int64 }
