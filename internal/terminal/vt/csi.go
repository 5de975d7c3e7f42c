package vt

// csi acts on a control sequence. Those with a prefix or intermediate bytes are apart.
func (t *Terminal) csi(final byte) {
	p := &t.parser.params
	if len(t.parser.collect) > 0 {
		t.csiExtended(string(t.parser.collect), final)
		return
	}
	s := t.active
	switch final {
	case 'm':
		t.sgr(p)
	case 'H', 'f':
		t.moveTo(p.count(1)-1, p.count(0)-1)
	case 'A':
		t.up(p.count(0))
	case 'B':
		t.down(p.count(0))
	case 'C', 'a':
		t.moveBy(p.count(0), 0)
	case 'D':
		t.moveBy(-p.count(0), 0)
	case 'E':
		t.down(p.count(0))
		s.x = 0
	case 'F':
		t.up(p.count(0))
		s.x = 0
	case 'G', '`':
		t.moveTo(p.count(0)-1, s.y) // so in origin mode it moves down, too
	case 'd':
		t.moveTo(s.x, p.count(0)-1)
	case 'e':
		t.moveBy(0, p.count(0))
	case 'I':
		t.tab(p.count(0))
	case 'Z':
		t.backTab(p.count(0))
	case 'g':
		t.clearTabs(p.at(0))
	case 'J':
		t.eraseDisplay(p.at(0), false)
	case 'K':
		t.eraseLine(p.at(0), false)
	case 'X':
		t.restrict()
		t.eraseCells(s.lines[s.y], s.x, s.x+min(p.count(0), maxCols), false)
	case '@':
		t.restrict()
		t.insertCells(s.lines[s.y], s.x, p.count(0), t.blank())
	case 'P':
		t.restrict()
		t.deleteCells(s.lines[s.y], s.x, p.count(0), t.blank())
	case 'L', 'M':
		t.editLines(final == 'M', p.count(0))
	case 'S':
		t.shift(s.top, s.bottom, p.count(0), t.blank())
	case 'T':
		t.shift(s.top, s.bottom, -p.count(0), cell{}) // not in the pen's background, other than the rest
	case 'b':
		t.repeat(p.count(0))
	case 'r':
		t.setRegion(p)
	case 's':
		t.saveCursor()
	case 'u':
		t.restoreCursor()
	case 'h', 'l':
		t.setModes(p, final == 'h')
	case 'n':
		t.reportStatus(p.at(0), false)
	case 'c':
		t.reportDevice(p.at(0))
	case 't':
		t.window(p)
	}
}

// csiExtended is the sequences with something between CSI and the final byte, or before the parameters.
func (t *Terminal) csiExtended(collected string, final byte) {
	p := &t.parser.params
	switch collected + string(rune(final)) {
	case "?h":
		t.setPrivateModes(p, true)
	case "?l":
		t.setPrivateModes(p, false)
	case "?J":
		t.eraseDisplay(p.at(0), true)
	case "?K":
		t.eraseLine(p.at(0), true)
	case "?n":
		t.reportStatus(p.at(0), true)
	case ">c":
		t.reportSecondary(p.at(0))
	case "$p":
		t.reportMode(p.at(0), false)
	case "?$p":
		t.reportMode(p.at(0), true)
	case ">q":
		t.reportVersion(p.at(0))
	case " q":
		t.setCursorStyle(p)
	case `"q`:
		t.setProtection(p.at(0))
	case "!p":
		t.softReset()
	case " @":
		t.shiftColumns(p.count(0))
	case " A":
		t.shiftColumns(-p.count(0))
	case "'}":
		t.editColumns(p.count(0))
	case "'~":
		t.editColumns(-p.count(0))
	case ">m":
		t.setKeyModifiers(p)
	case "?m":
		t.reportKeyModifiers(p.at(0))
	case ">u", "<u", "=u", "?u":
		t.keyboard(collected[0], p)
	}
}
