// Package trl is the driver for places on other daemons, which are reached over gRPC. The other daemon
// starts the runner of a session, as a guest, and passes its bytes on.
package trl
