package api

// TerminalSize is a measured size.
type TerminalSize struct {
	Cols int `json:"cols"` // 2 to 1000
	Rows int `json:"rows"` // 1 to 1000
}

// SessionAttachParams asks for what a terminal shows, and for everything it will.
type SessionAttachParams struct {
	SessionID string `json:"session_id"` // id or name
	// Snapshot begins with the whole screen, as bytes that make a terminal show it; as is
	// done when FromOffset is absent.
	Snapshot bool `json:"snapshot,omitempty"`
	// FromOffset begins with the byte behind the last one the viewer has. When that is
	// too long ago, a snapshot comes instead.
	FromOffset *int64 `json:"from_offset,omitempty"`
	// Scrollback is how many lines above the screen a snapshot has. Absent: 1,000; -1 for all.
	Scrollback *int `json:"scrollback,omitempty"`
	// ReadOnly is a viewer that never types and whose size does not count.
	ReadOnly bool `json:"read_only,omitempty"`
	// Size is that of the viewer, when it has measured itself. The first viewer with a
	// size that is not read-only owns the size of the terminal until it leaves.
	Size *TerminalSize `json:"size,omitempty"`
	// TakeSize makes this viewer the owner of the size even if another is.
	TakeSize bool `json:"take_size,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p SessionAttachParams) Check() error {
	switch {
	case p.SessionID == "":
		return invalid("session_id", "is required")
	case p.Snapshot && p.FromOffset != nil:
		return invalid("from_offset", "cannot be given together with snapshot")
	case p.FromOffset != nil && *p.FromOffset < 0:
		return invalid("from_offset", "must not be negative")
	case p.Scrollback != nil && *p.Scrollback < -1:
		return invalid("scrollback", "must be a number of lines, or -1 for all")
	case p.TakeSize && (p.Size == nil || p.ReadOnly):
		return invalid("take_size", "needs size, and not read_only")
	case p.Size != nil:
		return checkSize(p.Size.Cols, p.Size.Rows)
	}
	return nil
}

// Types of StreamEvent in a stream of session.attach. Each has an offset, and seq counts
// the pushes of this stream alone.
const (
	EventSnapshot = "snapshot" // a fresh terminal of that size that is written Data shows the screen at Offset
	EventOutput   = "output"   // bytes of the program from Offset on; never ends inside a UTF-8 sequence
	EventResize   = "resize"   // the terminal has another size from Offset on, or another owner
)

// ViewerEvent is what the pushes snapshot and resize tell.
type ViewerEvent struct {
	Cols int `json:"cols,omitempty"` // of the terminal
	Rows int `json:"rows,omitempty"` // of the terminal
	// OwnerID is the viewer whose size is followed; empty when there is none.
	OwnerID string `json:"owner_id,omitempty"`
	// Version is that of the screen in a snapshot.
	Version uint64 `json:"version,omitempty"`
}
