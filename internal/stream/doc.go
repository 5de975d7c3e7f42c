// Package stream makes the streams of the API that follow sessions: exec.stream (exec.go),
// session.attach (view.go) and event.subscribe (events.go).
//
// Every stream pulls: Recv asks the runner or the journal for what follows the last push, so a slow
// reader delays nobody and holds little memory. Only one goroutine at a time may call Recv; Close
// may be called at any time. The tests are those of the methods, in internal/service.
package stream
