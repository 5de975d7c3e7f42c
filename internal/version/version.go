// Package version holds the version of this build, for daemon, CLI and runner alike.
package version

// Version is the version of this build. Releases set it at link time:
//
//	go build -ldflags "-X github.com/trl-dev/trl/internal/version.Version=1.2.3"
var Version = "0.1.0-dev"
