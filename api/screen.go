package api

// Formats of session.screen.
const (
	FormatText  = "text"
	FormatANSI  = "ansi"
	FormatCells = "cells"
)

// SessionScreenParams asks for the screen of a terminal.
type SessionScreenParams struct {
	SessionID string `json:"session_id"` // id or name
	// Format is text (default), ansi for text with colours, or cells for runs of equal style.
	Format string `json:"format,omitempty"`
	// Scrollback is the number of lines above the screen to include; -1 for all.
	Scrollback int `json:"scrollback,omitempty"`
	// SinceVersion asks only for the rows that changed since this version of the screen.
	SinceVersion *uint64 `json:"since_version,omitempty"`
}

// Check reports the first invalid parameter.
func (p SessionScreenParams) Check() error {
	switch {
	case p.SessionID == "":
		return InvalidParam("session_id", "is required")
	case p.Format != "" && p.Format != FormatText && p.Format != FormatANSI && p.Format != FormatCells:
		return InvalidParam("format", "%.40q is not one of text, ansi, cells", p.Format)
	case p.Scrollback < -1:
		return InvalidParam("scrollback", "must be a number of lines, or -1 for all")
	}
	return nil
}

// SessionScreenResult is the screen of a terminal at one moment.
type SessionScreenResult struct {
	SessionID string       `json:"session_id"` // the id, even if the caller used the name
	State     SessionState `json:"state"`      // running, or terminated for the last screen of an ended session
	// Version rises with every change; use it as since_version of a later call.
	Version uint64 `json:"version"`
	// Offset is the number of bytes of output that the screen reflects.
	Offset    int64        `json:"offset"`
	Cols      int          `json:"cols"`      // width
	Rows      int          `json:"rows"`      // height
	Cursor    ScreenCursor `json:"cursor"`    // position and look of the cursor
	Title     string       `json:"title"`     // the title that the program set last
	Alternate bool         `json:"alternate"` // true while the program uses the alternate screen
	Modes     ScreenModes  `json:"modes"`     // modes that the program has set
	// WorkingDir is the directory that the program reported last (OSC 7); empty if none.
	WorkingDir string `json:"working_dir,omitempty"`
	// ScrollbackLines is the number of lines above the screen.
	ScrollbackLines int `json:"scrollback_lines"`
	// Text is the rows from top to bottom, without trailing blanks; with since_version, only
	// the changed rows. For formats text and ansi.
	Text string `json:"text,omitempty"`
	// Lines are the single rows, for format cells and for every request with since_version.
	Lines []ScreenLine `json:"lines,omitempty"`
}

// ScreenCursor is the cursor of a terminal.
type ScreenCursor struct {
	X       int    `json:"x"`       // column from 0; equal to the width when the next character will wrap
	Y       int    `json:"y"`       // row from 0
	Visible bool   `json:"visible"` // false while the program hides the cursor
	Style   string `json:"style"`   // block, underline or bar
	Blink   bool   `json:"blink"`   // true if the cursor blinks
}

// ScreenModes are the terminal modes that matter for typing and for drawing the screen.
type ScreenModes struct {
	ApplicationCursor  bool   `json:"application_cursor"`  // arrow keys send SS3
	ApplicationKeypad  bool   `json:"application_keypad"`  // the keypad sends SS3
	BracketedPaste     bool   `json:"bracketed_paste"`     // pasted text is marked
	Insert             bool   `json:"insert"`              // new characters push the rest of the line to the right
	Origin             bool   `json:"origin"`              // rows count from the scroll region
	Wraparound         bool   `json:"wraparound"`          // long lines wrap
	ReverseWraparound  bool   `json:"reverse_wraparound"`  // backspace wraps to the previous row
	SendFocus          bool   `json:"send_focus"`          // the program wants focus events
	SynchronizedOutput bool   `json:"synchronized_output"` // the program is drawing a batch
	Mouse              string `json:"mouse"`               // none, x10, vt200, drag or any
	MouseEncoding      string `json:"mouse_encoding"`      // default, sgr, …
	KittyFlags         int    `json:"kitty_flags"`         // flags of the kitty keyboard protocol
	ModifyOtherKeys    int    `json:"modify_other_keys"`   // level of xterm's modifyOtherKeys
}

// ScreenLine is one row of a screen.
type ScreenLine struct {
	// Row counts from 0 at the top of the screen; -1 is the line above it.
	Row int `json:"row"`
	// Wrapped reports that the row continues the row above it.
	Wrapped bool   `json:"wrapped,omitempty"`
	Text    string `json:"text"` // without trailing blanks
	// Cells are runs of cells with one style, for format cells.
	Cells []ScreenRun `json:"cells,omitempty"`
}

// ScreenRun is a run of cells with one style.
type ScreenRun struct {
	X     int    `json:"x"`            // first column
	Width int    `json:"width"`        // number of columns; a wide character takes two
	Text  string `json:"text"`         // the characters
	Fg    string `json:"fg,omitempty"` // colour: p0 to p255 of the palette, or #rrggbb; empty for the default
	Bg    string `json:"bg,omitempty"` // background colour, written like fg
	// Attrs are words separated by blanks: bold, dim, italic, underline, blink, inverse,
	// hidden, strike, overline.
	Attrs string `json:"attrs,omitempty"`
	// Underline is the style of an underline that is not single: double, curly, dotted or dashed.
	Underline string `json:"underline,omitempty"`
	Link      string `json:"link,omitempty"` // address of a hyperlink
}
