// Package session is the daemon's view of sessions: how they are created, their state,
// how they end, and the registry of all of them. The runner, at the other end of a link,
// is responsible for everything inside a session.
//
// Where to look: registry.go and create.go (finding and creating sessions), session.go and
// report.go (the state, and the runner's reports that change it), end.go and archived.go (how a
// session ends, and how its output stays readable), runnerconn.go, call.go and reachability.go
// (the connection to the runner, and what happens when it breaks), recover.go (sessions that an
// earlier daemon left), expiry.go, housekeeping.go and outputlimit.go (limits), runtime.go (the
// interfaces that a runtime implements).
package session
