// Package view shows a session's terminal on a person's terminal: it passes the program's
// output on, or draws the screen where the sizes differ, separates the detach key from other
// input, and restores the person's terminal at the end.
package view
