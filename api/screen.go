package api

// Formats of session.screen.
const (
	FormatText  = "text"
	FormatANSI  = "ansi"
	FormatCells = "cells"
)

// SessionScreenParams asks what a terminal shows.
type SessionScreenParams struct {
	SessionID string `json:"session_id"` // id or name
	// Format is text (default), ansi for text with colours, or cells for runs of equal style.
	Format string `json:"format,omitempty"`
	// Scrollback is how many lines above the screen are wanted too; -1 for all.
	Scrollback int `json:"scrollback,omitempty"`
	// SinceVersion asks only for the rows that changed since the screen had that version.
	SinceVersion *uint64 `json:"since_version,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p SessionScreenParams) Check() error {
	switch {
	case p.SessionID == "":
		return invalid("session_id", "is required")
	case p.Format != "" && p.Format != FormatText && p.Format != FormatANSI && p.Format != FormatCells:
		return invalid("format", "%.40q is not one of text, ansi, cells", p.Format)
	case p.Scrollback < -1:
		return invalid("scrollback", "must be a number of lines, or -1 for all")
	}
	return nil
}

// SessionScreenResult is what a terminal shows. It is one moment: nothing in it is
// newer than the rest.
type SessionScreenResult struct {
	SessionID string       `json:"session_id"` // its id, also when a name was given
	State     SessionState `json:"state"`      // running, or terminated when it is the last screen
	// Version rises with every change; since_version of a later call.
	Version uint64 `json:"version"`
	// Offset is how many bytes of output the screen is made of.
	Offset    int64        `json:"offset"`
	Cols      int          `json:"cols"`      // width
	Rows      int          `json:"rows"`      // height
	Cursor    ScreenCursor `json:"cursor"`    // where it is and how it looks
	Title     string       `json:"title"`     // as the program set it last
	Alternate bool         `json:"alternate"` // the program shows its own screen
	Modes     ScreenModes  `json:"modes"`     // what the program asked of the terminal
	// WorkingDir is what the program told last (OSC 7); empty when it never did.
	WorkingDir string `json:"working_dir,omitempty"`
	// ScrollbackLines is how many lines there are above the screen.
	ScrollbackLines int `json:"scrollback_lines"`
	// Text is the rows from top to bottom, blanks at their ends left out; with since_version
	// only those that changed. For formats text and ansi.
	Text string `json:"text,omitempty"`
	// Lines are the rows one by one, for format cells and whenever since_version is given.
	Lines []ScreenLine `json:"lines,omitempty"`
}

// ScreenCursor is the cursor of a terminal.
type ScreenCursor struct {
	X       int    `json:"x"`       // column from 0; the width when the last column was written and the line will wrap
	Y       int    `json:"y"`       // row from 0
	Visible bool   `json:"visible"` // the program did not hide it
	Style   string `json:"style"`   // block, underline or bar
	Blink   bool   `json:"blink"`   // it blinks
}

// ScreenModes are the modes of a terminal that those who type or look care for.
type ScreenModes struct {
	ApplicationCursor  bool   `json:"application_cursor"`  // arrow keys send SS3
	ApplicationKeypad  bool   `json:"application_keypad"`  // the keypad sends SS3
	BracketedPaste     bool   `json:"bracketed_paste"`     // a paste is marked
	Insert             bool   `json:"insert"`              // characters push what is right of them
	Origin             bool   `json:"origin"`              // rows count from the scroll region
	Wraparound         bool   `json:"wraparound"`          // lines wrap
	ReverseWraparound  bool   `json:"reverse_wraparound"`  // backspace goes to the row before
	SendFocus          bool   `json:"send_focus"`          // the program is told of focus
	SynchronizedOutput bool   `json:"synchronized_output"` // inside a batch
	Mouse              string `json:"mouse"`               // none, x10, vt200, drag or any
	MouseEncoding      string `json:"mouse_encoding"`      // default, sgr, …
	KittyFlags         int    `json:"kitty_flags"`         // of the kitty keyboard protocol
	ModifyOtherKeys    int    `json:"modify_other_keys"`   // level of xterm's option of that name
}

// ScreenLine is one row.
type ScreenLine struct {
	// Row counts from 0 at the top of the screen; -1 is the line above it.
	Row int `json:"row"`
	// Wrapped says that the row continues the one above it.
	Wrapped bool   `json:"wrapped,omitempty"`
	Text    string `json:"text"` // blanks at the end left out
	// Cells are runs of cells of one style; for format cells.
	Cells []ScreenRun `json:"cells,omitempty"`
}

// ScreenRun is a run of cells of one style.
type ScreenRun struct {
	X     int    `json:"x"`            // first column
	Width int    `json:"width"`        // how many columns; a wide character takes two
	Text  string `json:"text"`         // its characters
	Fg    string `json:"fg,omitempty"` // colour: p0 to p255 of the palette, or #rrggbb; empty for the default
	Bg    string `json:"bg,omitempty"` // like fg
	// Attrs are words with blanks between: bold, dim, italic, underline, blink, inverse,
	// hidden, strike, overline.
	Attrs string `json:"attrs,omitempty"`
	// Underline says what the line is when it is not a single one: double, curly, dotted or dashed.
	Underline string `json:"underline,omitempty"`
	Link      string `json:"link,omitempty"` // address of a hyperlink
}
