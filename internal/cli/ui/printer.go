package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// A Printer writes for a person if its file is a terminal (tables, colours), and for a program
// if it is not (tabs, no header, no colours).
type Printer struct {
	File   *os.File
	TTY    bool
	Colour bool
	Err    error     // of the first write that failed
	muted  bool      // drops all output
	Above  io.Writer // takes the output while a person edits the line below it; otherwise nil
}

// NewPrinter returns a printer that writes to f.
func NewPrinter(f *os.File) *Printer {
	tty := term.IsTerminal(int(f.Fd()))
	// https://no-color.org: present and not empty.
	colour := tty && os.Getenv("NO_COLOR") == "" && knowsEscapes()
	return &Printer{File: f, TTY: tty, Colour: colour}
}

// Redraws reports whether a line can be drawn again in its place: on a terminal that acts on escape
// sequences, also if it shows no colours.
func (p *Printer) Redraws() bool { return p.TTY && knowsEscapes() }

// Write writes b and remembers the first error, so that a caller that prints many lines can
// check once, at the end.
func (p *Printer) Write(b []byte) (int, error) {
	if p.muted {
		return len(b), nil
	}
	var to io.Writer = p.File
	if p.Above != nil {
		to = p.Above
	}
	n, err := to.Write(b)
	if err != nil && p.Err == nil {
		p.Err = err
	}
	return n, err
}

// Mute drops all further output if the file is a terminal. It is for a terminal that accepts no
// output: a write to it would never return.
func (p *Printer) Mute() { p.muted = p.muted || p.TTY }

// Line prints s and a newline.
func (p *Printer) Line(s string) { _, _ = p.Write([]byte(s + "\n")) }

// Linef formats and prints a line.
func (p *Printer) Linef(format string, args ...any) { p.Line(fmt.Sprintf(format, args...)) }

// JSON prints v as JSON: one line for a program, indented for a person.
func (p *Printer) JSON(v any) error {
	enc := json.NewEncoder(p)
	enc.SetEscapeHTML(false)
	if p.TTY {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// A Style is the number of an ANSI rendition (SGR), "" for none.
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"

	Italic    Style = "3"
	Underline Style = "4"
)

// Paint returns s in a style, or unchanged if the printer has no colours.
func (p *Printer) Paint(st Style, s string) string {
	if !p.Colour || st == Plain || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

// Width returns the number of columns of the terminal, 80 if it has none.
func (p *Printer) Width() int {
	if w, _, err := term.GetSize(int(p.File.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}

// When writes a time: how long ago for a person, RFC 3339 for a program.
func (p *Printer) When(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if !p.TTY {
		return t.UTC().Format(time.RFC3339)
	}
	ago := time.Since(t)
	if ago < time.Second {
		return "now"
	}
	return Span(ago.Truncate(time.Second)) + " ago"
}

// Text returns text from an agent or another program as it may be printed: cleaned for a
// terminal, unchanged for a program.
func (p *Printer) Text(s string) string {
	if p.TTY {
		return Clean(s)
	}
	return s
}

// JSONLine prints v as one line of JSON, also on a terminal.
func (p *Printer) JSONLine(v any) error {
	enc := json.NewEncoder(p)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
