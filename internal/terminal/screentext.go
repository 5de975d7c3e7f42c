package terminal

import (
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

// maxLook bounds the text of one answer, so that it can be sent. The oldest lines above the
// screen are left out.
var maxLook = 16 << 20

// look reads the screen of a terminal, without the version and the offset.
func look(v *vt.Terminal, p api.SessionScreenParams) api.SessionScreenResult {
	res := api.SessionScreenResult{
		Cursor: cursorOf(v), Title: v.Title(), Alternate: v.Alternate(), Modes: modesOf(v), WorkingDir: v.WorkingDir(), ScrollbackLines: v.ScrollbackLen(),
	}
	res.Cols, res.Rows = v.Size()
	above := v.ScrollbackLen()
	if p.Scrollback >= 0 {
		above = min(above, p.Scrollback)
	}
	if p.Format == api.FormatCells || p.SinceVersion != nil {
		res.Lines = []api.ScreenLine{}
	}
	// From the bottom up, so that the oldest lines are left out.
	var text []string
	var buf []byte
	var runs []vt.Run
	size := 0
	for y := res.Rows - 1; y >= -above && (y >= 0 || size <= maxLook); y-- {
		row := v.Row(y)
		if p.SinceVersion != nil && row.Version <= *p.SinceVersion {
			continue
		}
		line := api.ScreenLine{Row: y, Wrapped: row.Wrapped}
		if p.Format == api.FormatANSI {
			buf = v.RowANSI(y, buf[:0])
			line.Text = string(buf)
		} else {
			line.Text = v.RowText(y)
		}
		if p.Format == api.FormatCells {
			runs = v.RowRuns(y, runs[:0])
			line.Cells = runsOf(runs)
		} else {
			text = append(text, line.Text)
		}
		if res.Lines != nil {
			res.Lines = append(res.Lines, line)
		}
		size += len(line.Text) + runSize*len(line.Cells) + lineSize
	}
	reverse(res.Lines)
	reverse(text)
	res.Text = strings.Join(text, "\n")
	return res
}

// About how many bytes a line and a run take besides their text when they are sent.
const (
	lineSize = 32
	runSize  = 96
)

func reverse[T any](list []T) {
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
}

func cursorOf(v *vt.Terminal) api.ScreenCursor {
	c := v.Cursor()
	return api.ScreenCursor{X: c.X, Y: c.Y, Visible: c.Visible, Style: c.Style, Blink: c.Blink}
}

func modesOf(v *vt.Terminal) api.ScreenModes {
	m := v.Modes()
	return api.ScreenModes{
		ApplicationCursor: m.ApplicationCursor, ApplicationKeypad: m.ApplicationKeypad, BracketedPaste: m.BracketedPaste,
		Insert: m.Insert, Origin: m.Origin, Wraparound: m.Wraparound, ReverseWraparound: m.ReverseWraparound,
		SendFocus: m.SendFocus, SynchronizedOutput: m.SynchronizedOutput, Mouse: m.Mouse, MouseEncoding: m.MouseEncoding,
		KittyFlags: m.KittyFlags, ModifyOtherKeys: m.ModifyOtherKeys,
	}
}

// modesLocked returns the modes that viewers need.
func (t *Terminal) modesLocked() (m api.TerminalModes) {
	t.screen.do(t.offset, func(v *vt.Terminal) {
		modes := v.Modes()
		// The reader sends the modes that it has, after JSON has replaced what is not UTF-8.
		m = api.TerminalModes{
			KittyFlags: modes.KittyFlags, Mouse: modes.Mouse, Alternate: v.Alternate(), Title: v.Title(),
			WorkingDir: strings.ToValidUTF8(v.WorkingDir(), "\uFFFD"),
		}
	})
	return m
}

func runsOf(runs []vt.Run) []api.ScreenRun {
	list := make([]api.ScreenRun, 0, len(runs))
	for _, r := range runs {
		list = append(list, api.ScreenRun{
			X: r.X, Width: r.Width, Text: r.Text, Fg: r.Style.Fg.String(), Bg: r.Style.Bg.String(),
			Attrs: attrsOf(r.Style), Underline: underlines[min(int(r.Style.Underline), len(underlines)-1)], Link: r.Style.Link,
		})
	}
	return list
}

// underlines are the names of the underline styles; a single line has none.
var underlines = [...]string{0: "", 1: "", 2: "double", 3: "curly", 4: "dotted", 5: "dashed"}

func attrsOf(s vt.Style) string {
	var list []string
	for _, a := range []struct {
		on   bool
		name string
	}{
		{s.Bold, "bold"}, {s.Dim, "dim"}, {s.Italic, "italic"}, {s.Underline != 0, "underline"}, {s.Blink, "blink"},
		{s.Inverse, "inverse"}, {s.Hidden, "hidden"}, {s.Strike, "strike"}, {s.Overline, "overline"},
	} {
		if a.on {
			list = append(list, a.name)
		}
	}
	return strings.Join(list, " ")
}
