// Package trltest runs the real daemon for tests: it builds the binaries, starts
// `trl serve` in directories of its own, and at the end of the test looks at what
// is left: processes, data races, panics, the exit status.
package trltest
