package vt

// modes are the switches of the terminal that both screens share. It is comparable: a call that leaves it equal changed no mode.
type modes struct {
	applicationCursor bool  // ?1
	applicationKeypad bool  // ?66, ESC = and ESC >
	bracketedPaste    bool  // ?2004
	colorScheme       bool  // ?2031: the program wants to hear of dark and light
	insert            bool  // 4
	newline           bool  // 20: a line feed returns the carriage too. No reset ends it
	origin            bool  // ?6
	wraparound        bool  // ?7
	reverseWraparound bool  // ?45
	sendFocus         bool  // ?1004
	batch             bool  // ?2026: output belongs together until it ends
	cursorHidden      bool  // ?25, the other way round
	cursorBlink       bool  // ?12 and CSI q
	cursorStyle       uint8 // 0 as the page likes it, otherwise what CSI Ps q said: 1..6
	mouse             mouseMode
	mouseEncoding     mouseEncoding
	modifyOtherKeys   int // CSI > 4 ; n m
}

type mouseMode uint8

const (
	mouseNone  mouseMode = iota
	mouseX10             // ?9
	mouseVT200           // ?1000
	mouseDrag            // ?1002
	mouseAny             // ?1003
)

type mouseEncoding uint8

const (
	encodeDefault   mouseEncoding = iota
	encodeSGR                     // ?1006
	encodeSGRPixels               // ?1016
)

// Modes are the modes that the program has set and that decide which bytes a key sends.
type Modes struct {
	ApplicationCursor, ApplicationKeypad, BracketedPaste, Insert, Origin, Wraparound, ReverseWraparound, SendFocus, SynchronizedOutput bool

	Mouse           string // none, x10, vt200, drag, any
	MouseEncoding   string // default, sgr, sgr-pixels
	KittyFlags      int
	ModifyOtherKeys int
}

// Modes is what is switched on.
func (t *Terminal) Modes() Modes {
	m := t.modes
	return Modes{
		ApplicationCursor:  m.applicationCursor,
		ApplicationKeypad:  m.applicationKeypad,
		BracketedPaste:     m.bracketedPaste,
		Insert:             m.insert,
		Origin:             m.origin,
		Wraparound:         m.wraparound,
		ReverseWraparound:  m.reverseWraparound,
		SendFocus:          m.sendFocus,
		SynchronizedOutput: m.batch,
		Mouse:              [...]string{"none", "x10", "vt200", "drag", "any"}[m.mouse],
		MouseEncoding:      [...]string{"default", "sgr", "sgr-pixels"}[m.mouseEncoding],
		KittyFlags:         t.active.keyboard.flags,
		ModifyOtherKeys:    m.modifyOtherKeys,
	}
}

// setModes is SM and RM.
func (t *Terminal) setModes(p *params, on bool) {
	for i := range p.n {
		switch p.value[i] {
		case 4:
			t.modes.insert = on
		case 20:
			t.modes.newline = on
		}
	}
}

// setPrivateModes is DECSET and DECRST.
func (t *Terminal) setPrivateModes(p *params, on bool) {
	for i := range p.n {
		n := int(p.value[i])
		if flag := t.modes.private(n); flag != nil {
			*flag = on
			if n == 6 {
				t.moveTo(0, 0)
			}
			continue
		}
		switch n {
		case 2:
			if on {
				t.charsets, t.charset = [4]charset{}, ascii
			}
		case 25:
			t.modes.cursorHidden = !on
		case 9:
			t.setMouse(mouseX10, on)
		case 1000:
			t.setMouse(mouseVT200, on)
		case 1002:
			t.setMouse(mouseDrag, on)
		case 1003:
			t.setMouse(mouseAny, on)
		case 1006:
			t.setMouseEncoding(encodeSGR, on)
		case 1016:
			t.setMouseEncoding(encodeSGRPixels, on)
		case 47, 1047, 1048, 1049:
			t.setScreen(n, on)
		}
	}
}

// private returns the mode that a number of DECSET stands for; nil if setting it does more than change a flag.
func (m *modes) private(n int) *bool {
	switch n {
	case 1:
		return &m.applicationCursor
	case 6:
		return &m.origin
	case 7:
		return &m.wraparound
	case 12:
		return &m.cursorBlink
	case 45:
		return &m.reverseWraparound
	case 66:
		return &m.applicationKeypad
	case 1004:
		return &m.sendFocus
	case 2004:
		return &m.bracketedPaste
	case 2026:
		return &m.batch
	case 2031:
		return &m.colorScheme
	}
	return nil
}

func (t *Terminal) setMouse(m mouseMode, on bool) {
	if !on {
		m = mouseNone
	}
	t.modes.mouse = m
}

func (t *Terminal) setMouseEncoding(e mouseEncoding, on bool) {
	if !on {
		e = encodeDefault
	}
	t.modes.mouseEncoding = e
}

// setScreen is the modes that change between the screens, or save the cursor, or both.
func (t *Terminal) setScreen(n int, alternate bool) {
	if alternate && n >= 1048 {
		t.saveCursor()
	}
	if n != 1048 {
		t.show(alternate)
	}
	if !alternate && n >= 1048 {
		t.restoreCursor()
	}
}

// show brings one of the screens to the front. The cursor stays where it is. The alternate one is always empty at first.
func (t *Terminal) show(alternate bool) {
	if alternate == t.Alternate() {
		return
	}
	from, to := t.active, &t.primary
	if alternate {
		to = &t.alternate
		to.lines, to.spare = t.emptyLines(to.spare, t.blank()), nil
	}
	to.x, to.y = from.x, from.y
	t.active = to
	if !alternate {
		from.lines, from.spare, from.above, from.room = nil, from.lines, nil, t.rows
		from.top, from.bottom = 0, t.rows-1
		from.x, from.y = 0, 0
		from.setTabs(t.cols)
		from.keyboard = keyboardStack{} // what a program left behind is not for the next one
	}
	t.epoch++
	t.active.moved = t.stamp
	t.changed = true
}

// setCursorStyle is DECSCUSR.
func (t *Terminal) setCursorStyle(p *params) {
	n := p.at(0)
	if n > 6 {
		return
	}
	t.modes.cursorStyle = uint8(n)
	t.modes.cursorBlink = n%2 == 1
}

func (m modes) cursorShape() (style string, blinks bool) {
	return [...]string{"block", "block", "block", "underline", "underline", "bar", "bar"}[m.cursorStyle], m.cursorBlink
}

// setProtection is DECSCA.
func (t *Terminal) setProtection(n int) {
	switch n {
	case 1:
		t.pen.flags |= protected
	case 0, 2:
		t.pen.flags &^= protected
	}
	t.penDirty = true
}

// setKeyModifiers is XTMODKEYS, of which modifyOtherKeys is of interest.
func (t *Terminal) setKeyModifiers(p *params) {
	switch {
	case p.n == 1 && p.at(0) == 0: // all of them
		t.modes.modifyOtherKeys = 0
	case p.at(0) == 4:
		t.modes.modifyOtherKeys = min(p.at(1), 2)
	}
}

const maxKeyboardStack = 16

// keyboard is kitty's keyboard protocol: push, pop, set and ask.
func (t *Terminal) keyboard(what byte, p *params) {
	const known = 31
	k := &t.active.keyboard
	was := k.flags
	switch what {
	case '?':
		t.reportKeyboard(k.flags)
		return
	case '>':
		k.stack = append(k.stack, k.flags)
		if len(k.stack) > maxKeyboardStack {
			k.stack = append(k.stack[:0], k.stack[1:]...)
		}
		k.flags = p.at(0) & known
	case '<':
		for n := p.count(0); n > 0; n-- {
			last := len(k.stack) - 1
			if last < 0 {
				k.flags = 0
				break
			}
			k.flags, k.stack = k.stack[last], k.stack[:last]
		}
	case '=':
		switch flags := p.at(0) & known; p.count(1) {
		case 1:
			k.flags = flags
		case 2:
			k.flags |= flags
		case 3:
			k.flags &^= flags
		}
	}
	t.changed = t.changed || k.flags != was
}
