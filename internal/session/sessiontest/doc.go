// Package sessiontest is a runtime in memory, for tests of the layers above a runner.
// Its runners speak the real link over a pipe, but the test decides what a command does.
// It waits only on channels and timers, so it works in a bubble of testing/synctest.
package sessiontest
