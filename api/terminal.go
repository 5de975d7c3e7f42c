package api

import (
	"encoding/base64"
	"time"
)

// The size of a terminal when nobody says, and its bounds.
const (
	DefaultCols       = 80
	DefaultRows       = 24
	MinCols           = 2
	MinRows           = 1
	MaxCols           = 1000
	MaxRows           = 1000
	DefaultScrollback = 10_000
	MaxScrollback     = 100_000
	DefaultTerm       = "xterm-256color"
)

// TerminalInfo is what listings tell of a terminal.
type TerminalInfo struct {
	Cols  int    `json:"cols"`  // width now
	Rows  int    `json:"rows"`  // height now
	Title string `json:"title"` // as the program set it last
	// Alternate says that the program shows its own screen, as editors and pagers do.
	Alternate bool `json:"alternate"`
	// Viewers is how many are attached now.
	Viewers int `json:"viewers"`
	// Recording is set when what is shown is written to a file.
	Recording *RecordingInfo `json:"recording,omitempty"`
}

// RecordingInfo says where the recording of a terminal is.
type RecordingInfo struct {
	Path  string `json:"path"`  // in the place where the session lives
	Bytes int64  `json:"bytes"` // until now
	Input bool   `json:"input"` // what is typed is in it
	// Stopped says why nothing more is recorded; empty while it goes on.
	Stopped string `json:"stopped,omitempty"`
}

// SessionInputParams writes to a terminal or program.
type SessionInputParams struct {
	SessionID string `json:"session_id"` // id or name
	// Text is written as it is. In a terminal a line is ended by the key enter, not by
	// a line feed.
	Text string `json:"text,omitempty"`
	// DataBase64 is Text for bytes that are not UTF-8.
	DataBase64 string `json:"data_base64,omitempty"`
	// Paste is written as a terminal pastes: between marks when the program asked for
	// them, so that it can tell it from typing. For terminals.
	Paste string `json:"paste,omitempty"`
	// Keys are pressed after the text, one by one: enter, tab, esc, up, f5, ctrl-c,
	// alt-x, shift-tab, or one character. What a key sends depends on what the program
	// asked for. For terminals.
	Keys []string `json:"keys,omitempty"`
	// Close ends the input of a program, after the text. For programs.
	Close bool `json:"close,omitempty"`
	// WriteID makes a repetition harmless: a second write with the same id does nothing.
	WriteID string `json:"write_id,omitempty"`
	// Force writes also to a session that belongs to a dialogue.
	Force bool `json:"force,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p SessionInputParams) Check() error {
	given := 0
	for _, s := range []string{p.Text, p.DataBase64, p.Paste} {
		if s != "" {
			given++
		}
	}
	switch {
	case p.SessionID == "":
		return invalid("session_id", "is required")
	case given > 1:
		return invalid("text", "only one of text, data_base64 and paste can be given")
	case given == 0 && len(p.Keys) == 0 && !p.Close:
		return invalid("text", "is required, or data_base64, paste, keys or close")
	case len(p.Keys) > maxKeys:
		return invalid("keys", "has more than %d entries", maxKeys)
	case len(p.WriteID) > 128:
		return invalid("write_id", "has more than 128 bytes")
	}
	return checkBase64("data_base64", p.DataBase64)
}

func checkBase64(field, s string) error {
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return invalid(field, "is not base64")
	}
	return nil
}

const maxKeys = 1000

// Data returns the bytes of Text or DataBase64.
func (p SessionInputParams) Data() []byte { return Data(p.Text, p.DataBase64) }

// SessionInputResult tells what was written.
type SessionInputResult struct {
	Bytes   int64 `json:"bytes"`   // written by this call; keys and marks included
	Written int64 `json:"written"` // since the session began
	// Repeated says that this write_id was written before, and nothing was done.
	Repeated bool `json:"repeated"`
}

// SessionResizeParams gives a terminal another size.
type SessionResizeParams struct {
	SessionID string `json:"session_id"` // id or name
	Cols      int    `json:"cols"`       // 2 to 1000
	Rows      int    `json:"rows"`       // 1 to 1000
	// ViewerID says which attached viewer was measured. The size follows the viewer
	// that owns it; that of another is remembered for when it becomes the owner.
	ViewerID string `json:"viewer_id,omitempty"`
	// Force resizes also when a viewer owns the size, who then no longer does.
	Force bool `json:"force,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p SessionResizeParams) Check() error {
	if p.SessionID == "" {
		return invalid("session_id", "is required")
	}
	return checkSize(p.Cols, p.Rows)
}

func checkSize(cols, rows int) error {
	if cols < MinCols || cols > MaxCols {
		return invalid("cols", "%d: must be %d to %d", cols, MinCols, MaxCols)
	}
	if rows < MinRows || rows > MaxRows {
		return invalid("rows", "%d: must be %d to %d", rows, MinRows, MaxRows)
	}
	return nil
}

// SessionResizeResult is the size of the terminal now.
type SessionResizeResult struct {
	Cols int `json:"cols"` // now
	Rows int `json:"rows"` // now
	// Applied says that this is the size that was asked for.
	Applied bool `json:"applied"`
	// OwnerID is the viewer whose size is followed; empty when there is none.
	OwnerID string `json:"owner_id,omitempty"`
}

// SessionRecordingParams reads the recording of a terminal.
type SessionRecordingParams struct {
	SessionID string `json:"session_id"`       // id or name
	Offset    int64  `json:"offset,omitempty"` // first byte
	// Limit bounds the bytes of the answer. Absent: 1 MiB; at most 4 MiB.
	Limit *int64 `json:"limit,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p SessionRecordingParams) Check() error {
	switch {
	case p.SessionID == "":
		return invalid("session_id", "is required")
	case p.Offset < 0:
		return invalid("offset", "must not be negative")
	case p.Limit != nil && (*p.Limit < 1 || *p.Limit > 4<<20):
		return invalid("limit", "must be 1 to 4194304")
	}
	return nil
}

// SessionRecordingResult is a piece of an asciicast (version 3).
type SessionRecordingResult struct {
	SessionID  string    `json:"session_id"`  // its id, also when a name was given
	Offset     int64     `json:"offset"`      // of the first byte
	Data       string    `json:"data"`        // never ends inside a character
	Total      int64     `json:"total"`       // bytes there are now
	Complete   bool      `json:"complete"`    // nothing follows, now or later
	RecordedAt time.Time `json:"recorded_at"` // when it began
}
