// Package version holds the version of this build, for daemon, CLI and runner alike.
package version

// Version is the version of this build. The Makefile sets it at link time to the tag or the commit.
// What is written here is the version of the SDKs too: `make generate` copies it there, and a release
// has a tag of the same name.
var Version = "0.1.0"
