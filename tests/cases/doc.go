// Package cases runs the shell cases: short stories, one per line of a JSONL file,
// that say what a session must answer to which commands. They run in every shell they
// name, through a real daemon and its socket (in this package's tests) and directly on the
// package internal/shell (in its tests).
//
// The README beside this file describes the format.
package cases
