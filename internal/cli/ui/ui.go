// Package ui is what the commands of trl share with its two interactive programs, attach and
// chat: the standard streams and how to print on them, errors with their exit status and hint,
// flag types, and the person's terminal.
//
// It knows no command. Package cli and the interactive programs import it, never the reverse.
package ui

import (
	"os"

	"golang.org/x/term"
)

// Streams are the standard streams of the program.
type Streams struct {
	Stdin          *os.File
	Stdout, Stderr *Printer
}

// Terminal returns the terminal that a person sits at, if both stdin and stdout are one.
func (s Streams) Terminal() (*Terminal, bool) {
	if !s.Stdout.TTY || !term.IsTerminal(int(s.Stdin.Fd())) {
		return nil, false
	}
	return NewTerminal(s.Stdin, s.Stdout.File), true
}
