package ui

import (
	"os"
	"testing"
)

// TestColour: only a terminal that acts on escape sequences gets any. CheckWindow agrees.
func TestColour(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	for _, c := range []struct {
		term, noColour string
		colour, window bool
	}{
		{"xterm", "", true, true},
		{"xterm", "1", false, true},
		{"dumb", "", false, false},
		{"unknown", "", false, false},
		{"", "", false, false},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColour)
		p := NewPrinter(f)
		if !p.TTY {
			t.Skip("this system's ptmx is no terminal")
		}
		window := CheckWindow("trl attach", "") == nil
		if p.Colour != c.colour || window != c.window || p.Redraws() != c.window {
			t.Errorf("TERM=%q NO_COLOR=%q: colour %t, window %t, redraws %t", c.term, c.noColour, p.Colour, window, p.Redraws())
		}
	}
}
