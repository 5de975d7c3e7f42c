// Package search finds lines in the output of commands. The runner of a live session and the
// archive of an ended one search with it, so that output does not cross a network to be searched; a
// daemon does it itself only for a runner of an earlier version.
package search
