// Package stream makes the streams of the API that follow sessions: exec.stream (exec.go),
// session.attach (view.go) and event.subscribe (events.go).
//
// Every stream pulls: Recv asks the runner or the journal for what follows the last push, so a slow
// reader holds little memory and delays no other reader. Only one goroutine at a time may call Recv;
// Close may be called at any time.
package stream
