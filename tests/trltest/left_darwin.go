package trltest

import "time"

// carriers finds nothing: the environment of other processes cannot be read here.
func carriers(map[string]bool) []process { return nil }

func gone(int, time.Duration) bool { return true }
