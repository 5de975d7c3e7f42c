package vt

// control acts on a C0 or C1 control.
func (t *Terminal) control(r rune) {
	s := t.active
	switch r {
	case '\n', '\v', '\f':
		t.lineFeed()
	case '\r':
		s.x = 0
	case '\b':
		t.backspace()
	case '\t':
		if s.x < t.cols {
			t.tab(1)
		}
	case 0x0e:
		t.setGL(1)
	case 0x0f:
		t.setGL(0)
	case 0x84:
		t.indexRestricted()
	case 0x85:
		s.x = 0
		t.indexRestricted()
	case 0x88:
		t.setTab()
	case 0x7f:
		t.inRun = false // but a combining character still joins
		return
	}
	t.endRun()
}

// endRun notes that something other than a character came.
func (t *Terminal) endRun() { t.joining, t.inRun = 0, false }

// indexRestricted is IND: unlike LF it ends a pending wrap first.
func (t *Terminal) indexRestricted() {
	t.restrict()
	t.index()
	t.restrict()
}

// esc acts on an escape sequence that is not the beginning of something longer.
func (t *Terminal) esc(final byte) {
	s := t.active
	switch collected := t.parser.collect; {
	case len(collected) == 1:
		t.escIntermediate(collected[0], final)
		return
	case len(collected) > 1:
		return
	}
	switch final {
	case '7':
		t.saveCursor()
	case '8':
		t.restoreCursor()
	case 'D':
		t.indexRestricted()
	case 'E':
		s.x = 0
		t.indexRestricted()
	case 'M':
		t.reverseIndex()
	case 'H':
		t.setTab()
	case '=':
		t.modes.applicationKeypad = true
	case '>':
		t.modes.applicationKeypad = false
	case 'c':
		t.fullReset()
	case 'n':
		t.setGL(2)
	case 'o', '|':
		t.setGL(3)
	case '}':
		t.setGL(2)
	case '~':
		t.setGL(1)
	case 'Z':
		t.reportDevice(0)
	}
}

func (t *Terminal) escIntermediate(intermediate, final byte) {
	switch intermediate {
	case '(', ')', '*', '+':
		if c, ok := designated(final); ok {
			t.designate(int(intermediate-'('), c)
		}
	case '-', '.': // sets of 96 characters
		if c, ok := designated(final); ok {
			t.designate(int(intermediate-'-')+1, c)
		}
	case '%':
		if final == '@' || final == 'G' {
			t.setGL(0)
			t.designate(0, ascii)
		}
	case '#':
		if final == '8' {
			t.alignmentTest()
		}
	}
}

func (t *Terminal) setGL(n int) {
	t.gl = n
	t.charset = t.charsets[n]
}

func (t *Terminal) designate(n int, c charset) {
	t.charsets[n] = c
	if n == t.gl {
		t.charset = c
	}
}

// fullReset is RIS.
func (t *Terminal) fullReset() {
	t.reset()
	t.epoch++
	t.changed = true
}

// softReset is DECSTR.
func (t *Terminal) softReset() {
	s := t.active
	t.modes = modes{
		wraparound:      true,
		newline:         t.modes.newline,
		colorScheme:     t.modes.colorScheme,
		mouse:           t.modes.mouse,
		mouseEncoding:   t.modes.mouseEncoding,
		modifyOtherKeys: t.modes.modifyOtherKeys,
	}
	s.top, s.bottom = 0, t.rows-1
	t.extended = extended{}
	t.setPen(attr{})
	s.saved = savedCursor{y: t.base()}
	t.charsets, t.gl, t.charset = [4]charset{}, 0, ascii
}
