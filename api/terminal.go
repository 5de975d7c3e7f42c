package api

import (
	"encoding/base64"
	"time"
)

// The default size of a terminal, and its limits.
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

// TerminalInfo describes a terminal in listings.
type TerminalInfo struct {
	Cols  int    `json:"cols"`  // current width
	Rows  int    `json:"rows"`  // current height
	Title string `json:"title"` // the title that the program set last
	// Alternate reports that the program uses the alternate screen, as editors and pagers do.
	Alternate bool `json:"alternate"`
	// Viewers is the number of attached viewers.
	Viewers int `json:"viewers"`
	// Recording is set if the terminal is recorded to a file.
	Recording *RecordingInfo `json:"recording,omitempty"`
}

// RecordingInfo describes the recording of a terminal.
type RecordingInfo struct {
	Path  string `json:"path"`  // file on the machine of the daemon
	Bytes int64  `json:"bytes"` // size so far
	Input bool   `json:"input"` // true if input is recorded too
	// Stopped says why the recording stopped; empty while it goes on.
	Stopped string `json:"stopped,omitempty"`
}

// SessionInputParams writes to a terminal or program.
type SessionInputParams struct {
	SessionID string `json:"session_id"` // id or name
	// Text is written unchanged. In a terminal the key enter ends a line, not a line feed.
	Text string `json:"text,omitempty"`
	// DataBase64 is Text for bytes that are not UTF-8.
	DataBase64 string `json:"data_base64,omitempty"`
	// Paste is written as a terminal pastes: if the program has enabled bracketed paste,
	// between marks, so that the program can tell it from typing. For terminals.
	Paste string `json:"paste,omitempty"`
	// Keys are pressed after the text, one by one: enter, tab, esc, up, f5, ctrl-c,
	// alt-x, shift-tab, or one character. The bytes of a key depend on the modes that the
	// program has set. For terminals.
	Keys []string `json:"keys,omitempty"`
	// Close ends the input of a program, after the text. For programs.
	Close bool `json:"close,omitempty"`
	// WriteID makes a repeated call safe: a second write with the same id does nothing.
	WriteID string `json:"write_id,omitempty"`
	// Force is required to write to a session that belongs to a dialogue.
	Force bool `json:"force,omitempty"`
}

// Check reports the first invalid parameter.
func (p SessionInputParams) Check() error {
	given := 0
	for _, s := range []string{p.Text, p.DataBase64, p.Paste} {
		if s != "" {
			given++
		}
	}
	switch {
	case p.SessionID == "":
		return InvalidParam("session_id", "is required")
	case given > 1:
		return InvalidParam("text", "only one of text, data_base64 and paste can be given")
	case given == 0 && len(p.Keys) == 0 && !p.Close:
		return InvalidParam("text", "is required, or data_base64, paste, keys or close")
	case len(p.Keys) > maxKeys:
		return InvalidParam("keys", "has more than %d entries", maxKeys)
	case len(p.WriteID) > 128:
		return InvalidParam("write_id", "has more than 128 bytes")
	}
	return checkBase64("data_base64", p.DataBase64)
}

func checkBase64(field, s string) error {
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return InvalidParam(field, "is not base64")
	}
	return nil
}

const maxKeys = 1000

// Data returns the bytes of Text or DataBase64.
func (p SessionInputParams) Data() []byte { return Data(p.Text, p.DataBase64) }

// SessionInputResult reports how much was written.
type SessionInputResult struct {
	Bytes   int64 `json:"bytes"`   // bytes written by this call, including keys and marks
	Written int64 `json:"written"` // bytes written since the session started
	// Repeated reports that this write_id was seen before, so nothing was written.
	Repeated bool `json:"repeated"`
}

// SessionResizeParams changes the size of a terminal.
type SessionResizeParams struct {
	SessionID string `json:"session_id"` // id or name
	Cols      int    `json:"cols"`       // 2 to 1000
	Rows      int    `json:"rows"`       // 1 to 1000
	// ViewerID is the attached viewer that has this size. The terminal follows the viewer
	// that owns the size; TRL remembers the size of another viewer until it becomes the owner.
	ViewerID string `json:"viewer_id,omitempty"`
	// Force resizes the terminal even if a viewer owns the size; that viewer loses ownership.
	Force bool `json:"force,omitempty"`
}

// Check reports the first invalid parameter.
func (p SessionResizeParams) Check() error {
	if p.SessionID == "" {
		return InvalidParam("session_id", "is required")
	}
	return checkSize(p.Cols, p.Rows)
}

func checkSize(cols, rows int) error {
	if cols < MinCols || cols > MaxCols {
		return InvalidParam("cols", "%d: must be %d to %d", cols, MinCols, MaxCols)
	}
	if rows < MinRows || rows > MaxRows {
		return InvalidParam("rows", "%d: must be %d to %d", rows, MinRows, MaxRows)
	}
	return nil
}

// SessionResizeResult is the resulting size of the terminal.
type SessionResizeResult struct {
	Cols int `json:"cols"` // current width
	Rows int `json:"rows"` // current height
	// Applied reports that the terminal has the requested size.
	Applied bool `json:"applied"`
	// OwnerID is the viewer that determines the terminal's size; empty if there is none.
	OwnerID string `json:"owner_id,omitempty"`
}

// SessionRecordingParams reads the recording of a terminal.
type SessionRecordingParams struct {
	SessionID string `json:"session_id"`       // id or name
	Offset    int64  `json:"offset,omitempty"` // first byte to read
	// Limit is the maximum number of bytes to return. Absent: 1 MiB; at most 4 MiB.
	Limit *int64 `json:"limit,omitempty"`
}

// Check reports the first invalid parameter.
func (p SessionRecordingParams) Check() error {
	switch {
	case p.SessionID == "":
		return InvalidParam("session_id", "is required")
	case p.Offset < 0:
		return InvalidParam("offset", "must not be negative")
	case p.Limit != nil && (*p.Limit < 1 || *p.Limit > 4<<20):
		return InvalidParam("limit", "must be 1 to 4194304")
	}
	return nil
}

// SessionRecordingResult is a piece of an asciicast (version 3).
type SessionRecordingResult struct {
	SessionID  string    `json:"session_id"`  // the id, even if the caller used the name
	Offset     int64     `json:"offset"`      // position of the first byte
	Data       string    `json:"data"`        // never ends inside a character
	Total      int64     `json:"total"`       // bytes in the recording so far
	Complete   bool      `json:"complete"`    // true if nothing follows, now or later
	RecordedAt time.Time `json:"recorded_at"` // when the recording started
}
