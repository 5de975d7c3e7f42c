package vt

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxReplies bounds what is kept until the owner takes it. A program that asks more often than that without reading gets the oldest answers.
const maxReplies = 64 << 10

// Replies returns the answers to the program's queries since the last call, in order.
func (t *Terminal) Replies() []byte {
	r := t.replies
	t.replies = nil
	return r
}

func (t *Terminal) reply(format string, a ...any) {
	answer := fmt.Sprintf(format, a...)
	if len(t.replies)+len(answer) <= maxReplies {
		t.replies = append(t.replies, answer...)
	}
}

// reportDevice is DA1: a VT100 with advanced video, which promises nothing that is not there.
func (t *Terminal) reportDevice(n int) {
	if n == 0 {
		t.reply("\x1b[?1;2c")
	}
}

// reportSecondary is DA2.
func (t *Terminal) reportSecondary(n int) {
	if n == 0 {
		t.reply("\x1b[>0;276;0c")
	}
}

// reportVersion is XTVERSION.
func (t *Terminal) reportVersion(n int) {
	if n == 0 {
		t.reply("\x1bP>|TRL(%s)\x1b\\", t.config.Version)
	}
}

// reportStatus is DSR: whether all is well, and where the cursor is.
func (t *Terminal) reportStatus(n int, private bool) {
	x, y := min(t.active.x, t.cols-1)+1, t.active.y+1
	switch {
	case n == 5 && !private:
		t.reply("\x1b[0n")
	case n == 6 && !private:
		t.reply("\x1b[%d;%dR", y, x)
	case n == 6:
		t.reply("\x1b[?%d;%dR", y, x)
	case n == 996 && private:
		t.reply("\x1b[?997;1n") // dark, as the colours below are
	}
}

// Answers of DECRQM.
const (
	modeUnknown = iota
	modeSet
	modeReset
	modeAlwaysSet
	modeNeverSet
)

func (t *Terminal) reportMode(n int, private bool) {
	state := t.modeState(n)
	prefix := ""
	if private {
		state = t.privateModeState(n)
		prefix = "?"
	}
	t.reply("\x1b[%s%d;%d$y", prefix, n, state)
}

func (t *Terminal) modeState(n int) int {
	switch n {
	case 2:
		return modeNeverSet
	case 4:
		return setOrReset(t.modes.insert)
	case 12:
		return modeAlwaysSet
	case 20:
		return setOrReset(t.modes.newline)
	}
	return modeUnknown
}

func (t *Terminal) privateModeState(n int) int {
	if flag := t.modes.private(n); flag != nil {
		return setOrReset(*flag)
	}
	switch n {
	case 8:
		return modeAlwaysSet
	case 9:
		return setOrReset(t.modes.mouse == mouseX10)
	case 25:
		return setOrReset(!t.modes.cursorHidden)
	case 47, 1047, 1049:
		return setOrReset(t.Alternate())
	case 1048:
		return modeSet
	case 1000:
		return setOrReset(t.modes.mouse == mouseVT200)
	case 1002:
		return setOrReset(t.modes.mouse == mouseDrag)
	case 1003:
		return setOrReset(t.modes.mouse == mouseAny)
	case 1006:
		return setOrReset(t.modes.mouseEncoding == encodeSGR)
	case 1016:
		return setOrReset(t.modes.mouseEncoding == encodeSGRPixels)
	case 67, 1005, 1015:
		return modeNeverSet
	}
	return modeUnknown
}

func setOrReset(on bool) int {
	if on {
		return modeSet
	}
	return modeReset
}

// reportKeyboard answers kitty's question for the flags.
func (t *Terminal) reportKeyboard(flags int) { t.reply("\x1b[?%du", flags) }

// reportKeyModifiers answers XTQMODKEYS.
func (t *Terminal) reportKeyModifiers(n int) {
	if n == 4 {
		t.reply("\x1b[>4;%dm", t.modes.modifyOtherKeys)
	}
}

// A cell is said to be this large. Nothing here has pixels, but programs divide by it.
const cellWidth, cellHeight = 8, 16

// reportWindow is the questions of XTWINOPS. Titles are not told: what a program wrote into one must not come back as input.
func (t *Terminal) reportWindow(n int) {
	switch n {
	case 11:
		t.reply("\x1b[1t")
	case 14:
		t.reply("\x1b[4;%d;%dt", t.rows*cellHeight, t.cols*cellWidth)
	case 16:
		t.reply("\x1b[6;%d;%dt", cellHeight, cellWidth)
	case 18:
		t.reply("\x1b[8;%d;%dt", t.rows, t.cols)
	case 19:
		t.reply("\x1b[9;%d;%dt", t.rows, t.cols)
	}
}

// dcs acts on a device control string: the two questions there are.
func (t *Terminal) dcs(final byte, payload []byte) {
	switch string(t.parser.collect) + string(rune(final)) {
	case "$q":
		t.reportSetting(string(payload))
	case "+q":
		t.reportCapabilities(payload)
	}
}

// reportSetting is DECRQSS.
func (t *Terminal) reportSetting(which string) {
	s := t.active
	switch which {
	case "m":
		t.reply("\x1bP1$r0%sm\x1b\\", t.pen.sgr())
	case "r":
		t.reply("\x1bP1$r%d;%dr\x1b\\", s.top+1, s.bottom+1)
	case " q":
		style := [...]int{2, 2, 2, 4, 4, 6, 6}[t.modes.cursorStyle]
		if t.modes.cursorBlink {
			style--
		}
		t.reply("\x1bP1$r%d q\x1b\\", style)
	case `"q`:
		on := 0
		if t.pen.flags&protected != 0 {
			on = 1
		}
		t.reply("\x1bP1$r%d\"q\x1b\\", on)
	case `"p`:
		t.reply("\x1bP1$r61;1\"p\x1b\\")
	default:
		t.reply("\x1bP0$r\x1b\\")
	}
}

// sgr is the parameters that lead from the default to this style, each after a semicolon.
func (a attr) sgr() string {
	var b strings.Builder
	for i, n := range []int{1, 2, 3, 5, 7, 8, 9, 53} {
		if a.flags&(1<<i) != 0 {
			fmt.Fprintf(&b, ";%d", n)
		}
	}
	switch {
	case a.underline == 1:
		b.WriteString(";4")
	case a.underline > 1:
		fmt.Fprintf(&b, ";4:%d", a.underline)
	}
	writeColor := func(base int, c Color) {
		if n, ok := c.Palette(); ok && n < 8 && base != 58 {
			fmt.Fprintf(&b, ";%d", base-8+int(n))
		} else if ok && n < 16 && base != 58 {
			fmt.Fprintf(&b, ";%d", base+52-8+int(n))
		} else if ok {
			fmt.Fprintf(&b, ";%d:5:%d", base, n)
		}
		if red, green, blue, ok := c.RGB(); ok {
			fmt.Fprintf(&b, ";%d:2::%d:%d:%d", base, red, green, blue)
		}
	}
	writeColor(38, a.fg)
	writeColor(48, a.bg)
	writeColor(58, a.ul)
	return b.String()
}

// capabilities are what XTGETTCAP is asked for.
var capabilities = map[string]string{
	"TN":     "xterm-256color",
	"name":   "xterm-256color",
	"Co":     "256",
	"colors": "256",
	"RGB":    "8/8/8",
}

// reportCapabilities is XTGETTCAP: names in hexadecimal, separated by semicolons. The first that is unknown ends the answer.
func (t *Terminal) reportCapabilities(payload []byte) {
	known := []string{}
	for _, name := range bytes.Split(payload, []byte{';'}) {
		plain, err := hex.DecodeString(string(name))
		value, ok := capabilities[string(plain)]
		if err != nil || !ok {
			break
		}
		known = append(known, fmt.Sprintf("%X=%X", plain, value))
	}
	if len(known) == 0 {
		t.reply("\x1bP0+r\x1b\\")
		return
	}
	t.reply("\x1bP1+r%s\x1b\\", strings.Join(known, ";"))
}
