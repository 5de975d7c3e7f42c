package view

import (
	"bytes"
	"slices"
	"strconv"
)

// Finals of control sequences that the terminal model carries out, by what stands before
// them: a private mark, or intermediates.
var finals = map[string]string{
	"":  "@ABCDEFGHIJKLMPSTXZ`abdefghlmrsu",
	"?": "JKhl",
	">": "mn", // modifyOtherKeys
	" ": "@Aq",
	`"`: "q",
	"'": "}~",
	"!": "p",
}

// Modes that pass to the person's terminal. The others would change the window or the meaning of
// later output, or make the terminal send reports that the viewer does not expect.
var (
	modes        = []int{4, 20}
	privateModes = []int{1, 6, 7, 9, 12, 25, 45, 47, 66, 1000, 1002, 1003, 1004, 1006, 1016, 1047, 1048, 1049, 2004, 2026, 2031}
)

// passControl passes a sequence of ESC [, what was collected and a final character.
func (f *Filter) passControl(dst []byte, final byte) []byte {
	mark, params := "", f.seq
	if len(params) > 0 && params[0] >= '<' {
		mark, params = string(params[:1]), params[1:]
	}
	for n := len(params); n > 0 && params[n-1] < '0'; n = len(params) {
		mark, params = string(params[n-1:])+mark, params[:n-1]
	}
	if bytes.IndexByte([]byte(finals[mark]), final) < 0 || bytes.ContainsFunc(params, notParam) {
		return dst
	}
	switch {
	case final == 'h' || final == 'l':
		allowed := modes
		if mark == "?" {
			allowed = privateModes
		}
		if params = only(params, allowed); len(params) == 0 {
			return dst
		}
	case final == 'T' && bytes.IndexByte(params, ';') >= 0: // tracks the mouse
		return dst
	case final == 'J' && f.Spare && string(params) == "3":
		return dst
	case final == 'g':
		f.Tabs = true
	}
	dst = append(dst, "\x1b["...)
	if mark == "?" || mark == ">" {
		return append(append(append(dst, mark...), params...), final)
	}
	return append(append(append(dst, params...), mark...), final)
}

func notParam(r rune) bool { return (r < '0' || r > '9') && r != ';' && r != ':' }

// only is the parameters that are in a list.
func only(params []byte, list []int) []byte {
	var kept [][]byte
	for _, p := range bytes.Split(params, []byte{';'}) {
		if n, err := strconv.Atoi(string(p)); err == nil && slices.Contains(list, n) {
			kept = append(kept, p)
		}
	}
	return bytes.Join(kept, []byte{';'})
}
