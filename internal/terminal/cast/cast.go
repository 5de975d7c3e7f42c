// Package cast writes and reads recordings of terminals: asciicast, a header and then
// one line of JSON for each event. Version 3 is written; 2 and 3 are read.
//
// It imports the standard library only, because the runner writes with it.
package cast

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Codes of events. Readers skip those they do not know.
const (
	Output = "o" // the terminal was given Data to show
	Input  = "i" // Data was typed
	Resize = "r" // Data is the new size, as in 80x24
	Marker = "m" // Data is a label for this moment
	Exit   = "x" // Data is the exit status of the program; nothing follows
)

// Header is the first line of a recording: its size, time and environment.
type Header struct {
	Version    int // of the format it was read from; Writer writes 3
	Cols, Rows int // size at the beginning
	Term       string
	Time       time.Time // when it began
	Title      string
	Command    string
	Env        map[string]string // what of it matters to who looks at it: SHELL, TERM
	// IdleLimit is the longest pause that a player should make; 0 for any.
	IdleLimit time.Duration
	Theme     *Theme // the colours of the terminal; nil when it does not tell
	HasInput  bool   // the input is recorded, too
}

// Theme is the colours of the terminal that was recorded, each as #rrggbb.
type Theme struct {
	Foreground string `json:"fg"`
	Background string `json:"bg"`
	Palette    string `json:"palette"` // 8 or 16, with colons between them
}

// Event is something that happened.
type Event struct {
	At   time.Duration // since the beginning
	Code string
	Data string
}

// Size is what the terminal was resized to, for events of code Resize.
func (e Event) Size() (cols, rows int, err error) {
	c, r, ok := strings.Cut(e.Data, "x")
	if ok {
		cols, err = strconv.Atoi(c)
	}
	if ok && err == nil {
		rows, err = strconv.Atoi(r)
	}
	if !ok || err != nil || cols < 1 || rows < 1 {
		return 0, 0, fmt.Errorf("%.20q is not a size such as 80x24", e.Data)
	}
	return cols, rows, nil
}
