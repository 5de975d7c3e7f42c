package api

import "time"

// TerminalSize is the size of a viewer's terminal.
type TerminalSize struct {
	Cols int `json:"cols"` // 2 to 1000
	Rows int `json:"rows"` // 1 to 1000
}

// SessionAttachParams asks for the screen of a terminal and all further output.
type SessionAttachParams struct {
	SessionID string `json:"session_id"` // id or name
	// Snapshot starts the stream with the whole screen, as bytes that draw it on a terminal.
	// This is also the default when FromOffset is absent.
	Snapshot bool `json:"snapshot,omitempty"`
	// FromOffset is the first byte to send: the one after the last byte that the viewer
	// has. If TRL no longer keeps that byte, the stream starts with a snapshot instead.
	FromOffset *int64 `json:"from_offset,omitempty"`
	// Scrollback is the number of lines above the screen that a snapshot includes. Absent:
	// 1,000; -1: all.
	Scrollback *int `json:"scrollback,omitempty"`
	// ReadOnly attaches a viewer that never types and never determines the terminal's size.
	ReadOnly bool `json:"read_only,omitempty"`
	// Size is the viewer's own size, if known. The first viewer that has a size and is not
	// read-only owns the size of the terminal until it detaches.
	Size *TerminalSize `json:"size,omitempty"`
	// TakeSize makes this viewer the owner of the size, even if another viewer owns it.
	TakeSize bool `json:"take_size,omitempty"`
	// Label names the viewer for the others, such as browser. At most 64 bytes, without control
	// characters. Absent: the label of the connection, from system.hello.
	Label string `json:"label,omitempty"`
	// Viewers asks for a push of type viewers: after the screen, and whenever a viewer attaches, detaches
	// or changes.
	Viewers bool `json:"viewers,omitempty"`
	// Modes asks for a push of type modes: after the screen, and whenever a mode changes. The runner
	// of an older version sends none.
	Modes bool `json:"modes,omitempty"`
}

// Watches reports whether the viewer changes neither input nor size of the terminal.
func (p SessionAttachParams) Watches() bool { return p.ReadOnly }

// Check reports the first invalid parameter.
func (p SessionAttachParams) Check() error {
	switch {
	case p.SessionID == "":
		return InvalidParam("session_id", "is required")
	case p.Snapshot && p.FromOffset != nil:
		return InvalidParam("from_offset", "cannot be given together with snapshot")
	case p.FromOffset != nil && *p.FromOffset < 0:
		return InvalidParam("from_offset", "must not be negative")
	case p.Scrollback != nil && *p.Scrollback < -1:
		return InvalidParam("scrollback", "must be a number of lines, or -1 for all")
	case p.TakeSize && (p.Size == nil || p.ReadOnly):
		return InvalidParam("take_size", "needs size, and not read_only")
	case p.Size != nil:
		if err := checkSize(p.Size.Cols, p.Size.Rows); err != nil {
			return err
		}
	}
	return checkLabel(p.Label)
}

// Types of StreamEvent in a stream of session.attach. Each has an offset, and seq counts
// the pushes of this stream alone.
const (
	EventSnapshot = "snapshot" // Data, written to an empty terminal of this size, draws the screen as it was at Offset
	EventOutput   = "output"   // bytes that the program wrote, starting at Offset; never ends inside a UTF-8 sequence
	EventResize   = "resize"   // from Offset on, the terminal has another size or another owner
	EventViewers  = "viewers"  // the viewers of the terminal, after a change
	EventModes    = "modes"    // the modes of the terminal, after a change
)

// Viewer is one viewer of a terminal.
type Viewer struct {
	ViewerID string    `json:"viewer_id"`       // as in the answer of session.attach
	Label    string    `json:"label,omitempty"` // chosen by the viewer
	ReadOnly bool      `json:"read_only"`       // the viewer never types and never determines the size
	Cols     int       `json:"cols,omitempty"`  // width of the viewer, if known
	Rows     int       `json:"rows,omitempty"`  // height of the viewer, if known
	Owner    bool      `json:"owner"`           // the terminal has the size of this viewer
	Since    time.Time `json:"since"`           // when the viewer attached
}

// TerminalModes is the state of a terminal that its viewers need besides the output. It belongs to the
// newest output, which a viewer may not have yet.
type TerminalModes struct {
	KittyFlags int    `json:"kitty_flags"`           // flags of the kitty keyboard protocol
	Mouse      string `json:"mouse"`                 // none, x10, vt200, drag or any
	Alternate  bool   `json:"alternate"`             // true while the program uses the alternate screen
	Title      string `json:"title"`                 // the title that the program set last
	WorkingDir string `json:"working_dir,omitempty"` // the directory that the program reported last (OSC 7)
}

// ViewerEvent holds the fields of the pushes snapshot and resize.
type ViewerEvent struct {
	Cols int `json:"cols,omitempty"` // width of the terminal
	Rows int `json:"rows,omitempty"` // height of the terminal
	// OwnerID is the viewer that determines the terminal's size; empty if there is none.
	OwnerID string `json:"owner_id,omitempty"`
	// Version is the version of the screen in a snapshot.
	Version uint64 `json:"version,omitempty"`
}
