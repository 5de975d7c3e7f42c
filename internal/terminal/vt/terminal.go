package vt

// Config says how a Terminal begins.
type Config struct {
	Cols, Rows int
	Scrollback int    // lines kept above the screen; 0 keeps none
	Version    string // said to programs that ask for it (XTVERSION)
}

// Sizes beyond these are cut to them.
const (
	minCols, minRows = 2, 1
	maxCols, maxRows = 4096, 2048
	maxScrollback    = 1 << 20
)

// Terminal is the state of one terminal. It is not safe for concurrent use: its owner locks.
type Terminal struct {
	config     Config
	cols, rows int

	primary, alternate screen
	active             *screen // one of the two
	history            history // the primary's lines above the screen

	pen        attr // what the next character is written with
	extended   extended
	penStyle   uint32 // the pen's number in styles, valid unless penDirty
	eraseStyle uint32 // and that of its background alone
	penDirty   bool
	charsets   [4]charset // G0 to G3
	gl         int        // which of them is in use
	charset    charset    // what that is, or what DECRC made of it
	joining    int        // width of the character just written, if a combining character may join it and REP may repeat it; otherwise 0
	inRun      bool       // nothing came since that character was written

	modes     modes
	title     string
	iconTitle string
	titles    []string // saved by CSI 22 t, the newest last
	icons     []string // likewise the icon's
	directory string   // of OSC 7
	palette   palette

	parser   parser
	replies  []byte
	styles   styleTable
	clusters clusterTable

	version uint64 // rises with every visible change
	stamp   uint64 // what version becomes when the present call changes something
	changed bool   // it did
	before  visible
	epoch   uint64 // rises when absolute line numbers lose their meaning
}

// visible is what can change without a line changing.
type visible struct {
	x, y      int
	alternate bool
	modes     modes
	title     string
}

// Cursor is where the next character goes.
type Cursor struct {
	X, Y        int // X is the number of columns when a wrap is pending
	Visible     bool
	Style       string // block, underline, bar
	Blink       bool
	PendingWrap bool // the next character begins a new line first
}

// New makes an empty terminal.
func New(c Config) *Terminal {
	loadWidths()
	t := &Terminal{config: c, styles: newStyleTable(), clusters: newClusterTable()}
	t.cols = min(max(c.Cols, minCols), maxCols)
	t.rows = min(max(c.Rows, minRows), maxRows)
	t.history.limit = min(max(c.Scrollback, 0), maxScrollback)
	t.reset()
	return t
}

// reset is the state a terminal begins with. The title and what is counted stay.
func (t *Terminal) reset() {
	t.history.clear()
	lines := t.emptyLines(t.primary.lines, cell{})
	t.primary = t.newScreen()
	t.primary.lines = lines
	t.alternate = t.newScreen()
	t.active = &t.primary
	t.extended = extended{}
	t.setPen(attr{})
	t.palette = palette{}
	t.charsets, t.gl, t.charset = [4]charset{}, 0, ascii
	t.modes = modes{wraparound: true, newline: t.modes.newline, cursorHidden: t.modes.cursorHidden} // the page keeps these two
}

func (t *Terminal) newScreen() screen {
	s := screen{bottom: t.rows - 1, room: t.rows}
	s.setTabs(t.cols)
	return s
}

// emptyLines is a screen of them, made of the lines of one that is no longer needed, if it has any.
func (t *Terminal) emptyLines(old []*line, fill cell) []*line {
	lines := old
	if len(lines) != t.rows {
		lines = make([]*line, t.rows)
	}
	for i, ln := range lines {
		if ln == nil || len(ln.cells) < t.cols {
			ln = &line{cells: make([]cell, t.cols)}
			lines[i] = ln
		}
		ln.reset(t.cols, fill, false)
		ln.version = t.stamp
	}
	return lines
}

// begin and end are around every call that may change something. A call is one change: what reads, reads between calls.
func (t *Terminal) begin() {
	t.stamp = t.version + 1
	t.before = t.visible()
}

func (t *Terminal) end() {
	t.settle()
	if t.changed || t.before != t.visible() {
		t.version = t.stamp
	}
	t.changed = false
}

func (t *Terminal) visible() visible {
	return visible{t.active.x, t.active.y, t.Alternate(), t.modes, t.title}
}

// Size is columns and rows.
func (t *Terminal) Size() (cols, rows int) { return t.cols, t.rows }

// Version rises with every visible change: a cell, the cursor, a mode, the title, the size, the other screen.
func (t *Terminal) Version() uint64 { return t.version }

// Epoch rises when the absolute numbers of lines stop meaning what they meant: reflow, reset, scrollback cleared, the other screen.
func (t *Terminal) Epoch() uint64 { return t.epoch }

// InBatch says whether the program is in the middle of output that belongs together (?2026).
func (t *Terminal) InBatch() bool { return t.modes.batch }

// EndBatch ends a batch that the program did not end in time.
func (t *Terminal) EndBatch() {
	t.begin()
	t.modes.batch = false
	t.end()
}

// Unfinished says whether the bytes so far end inside an escape sequence or a character.
func (t *Terminal) Unfinished() bool { return t.parser.state != ground || t.parser.have > 0 }

// Title is what the program called the window.
func (t *Terminal) Title() string { return t.title }

// WorkingDir is the directory the program said it is in (OSC 7); empty when it did not.
func (t *Terminal) WorkingDir() string { return t.directory }

// Alternate says whether the alternate screen is shown.
func (t *Terminal) Alternate() bool { return t.active == &t.alternate }

// Cursor is where the cursor is and how it looks.
func (t *Terminal) Cursor() Cursor {
	s := t.active
	style, blinks := t.modes.cursorShape()
	return Cursor{X: s.x, Y: s.y, Visible: !t.modes.cursorHidden, Style: style, Blink: blinks, PendingWrap: s.x >= t.cols}
}
