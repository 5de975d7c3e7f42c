// Package repo holds tests about the repository itself: which package may
// import which, what every source file must have, that documents point to
// things that exist, and that the commands in the README work.
package repo
