package vt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The modifiers of a key, as xterm and kitty number them in their sequences.
const (
	shiftKey = 1 << iota
	altKey
	ctrlKey
	superKey
)

// namedKey is a key that is not a character. A key of the letter form is CSI letter, one of the number form is CSI number ~, and
// code is the number it has in CSI u; the few keys that have only that are sent as bytes of their own.
type namedKey struct {
	name   string
	letter byte
	number int
	code   int
}

var namedKeys = sync.OnceValue(func() []namedKey {
	keys := []namedKey{
		{name: "enter", code: 13}, {name: "tab", code: 9}, {name: "esc", code: 27}, {name: "backspace", code: 127}, {name: "space", code: ' '},
		{name: "up", letter: 'A'}, {name: "down", letter: 'B'}, {name: "right", letter: 'C'}, {name: "left", letter: 'D'},
		{name: "home", letter: 'H'}, {name: "end", letter: 'F'},
		{name: "insert", number: 2}, {name: "delete", number: 3}, {name: "pageup", number: 5}, {name: "pagedown", number: 6},
		{name: "f1", letter: 'P'}, {name: "f2", letter: 'Q'}, {name: "f3", letter: 'R'}, {name: "f4", letter: 'S'},
	}
	for i, number := range []int{15, 17, 18, 19, 20, 21, 23, 24} {
		keys = append(keys, namedKey{name: "f" + strconv.Itoa(i+5), number: number})
	}
	// To a program of the terminfo entry of xterm, F13 to F24 are the first twelve with shift. In CSI u they have numbers of their own.
	for n := 13; n <= 24; n++ {
		key := keys[slices.IndexFunc(keys, func(k namedKey) bool { return k.name == "f"+strconv.Itoa(n-12) })]
		key.name, key.code = "f"+strconv.Itoa(n), 57376+n-13
		keys = append(keys, key)
	}
	return keys
})

var keyAliases = map[string]string{
	"escape": "esc", "return": "enter", "del": "delete", "ins": "insert", "pgup": "pageup", "pgdn": "pagedown", "bs": "backspace",
}

var modifierNames = []struct {
	prefix string
	bit    int
}{{"ctrl-", ctrlKey}, {"alt-", altKey}, {"shift-", shiftKey}, {"super-", superKey}, {"meta-", superKey}}

// KeyNames are the names of all keys that are not characters.
func KeyNames() []string {
	names := make([]string, len(namedKeys()))
	for i, k := range namedKeys() {
		names[i] = k.name
	}
	return names
}

// keyPress is a key with its modifiers. Of a character, char is what the key gives without modifiers on a keyboard of the US, and typed what
// it gives with shift when that is held.
type keyPress struct {
	namedKey
	mods        int
	char, typed rune
}

// Key is what pressing a key sends to the program, in the modes that the program has set: a name of KeyNames or one character, with
// the modifiers "ctrl-", "alt-", "shift-" and "super-" (or "meta-") before it in any order.
func (t *Terminal) Key(name string) ([]byte, error) {
	key, err := parseKey(name)
	if err != nil {
		return nil, err
	}
	var out []byte
	if flags := t.active.keyboard.flags; flags&(kittyDisambiguate|kittyAllKeys) != 0 {
		out = key.kitty(flags)
	} else if out = key.modifyOther(t.modes.modifyOtherKeys); out == nil {
		out = key.classic(t.modes.applicationCursor)
	}
	if out == nil {
		return nil, fmt.Errorf("key %q: a classic terminal cannot send it; the program must enable an extended keyboard protocol", name)
	}
	return out, nil
}

// maxKeyName is longer than any name with all modifiers.
const maxKeyName = 32

func parseKey(name string) (keyPress, error) {
	var key keyPress
	if len(name) > maxKeyName {
		return key, fmt.Errorf("key %q…: unknown; it has %d bytes, and names of keys have at most %d", name[:maxKeyName], len(name), maxKeyName)
	}
	rest := name
	for again := true; again; {
		again = false
		for _, m := range modifierNames {
			if len(rest) > len(m.prefix) && strings.EqualFold(rest[:len(m.prefix)], m.prefix) {
				rest, key.mods, again = rest[len(m.prefix):], key.mods|m.bit, true
			}
		}
	}
	if char, size := utf8.DecodeRuneInString(rest); size == len(rest) && size > 0 && unicode.IsPrint(char) && utf8.ValidString(rest) {
		if char == ' ' {
			rest = "space"
		} else {
			key.setChar(char)
			return key, nil
		}
	}
	lower := strings.ToLower(rest)
	if alias, ok := keyAliases[lower]; ok {
		lower = alias
	}
	i := slices.IndexFunc(namedKeys(), func(k namedKey) bool { return k.name == lower })
	if i < 0 {
		return key, unknownKey(name, lower)
	}
	key.namedKey = namedKeys()[i]
	if lower == "space" {
		key.char, key.typed = ' ', ' '
	}
	return key, nil
}

// The characters of the keys of a US keyboard without and with shift.
const (
	unshifted = "`1234567890-=[]\\;',./"
	shifted   = "~!@#$%^&*()_+{}|:\"<>?"
)

func (k *keyPress) setChar(char rune) {
	k.char, k.typed = char, char
	if i := strings.IndexRune(shifted, char); i >= 0 {
		k.char, k.mods = rune(unshifted[i]), k.mods|shiftKey
	} else if i := strings.IndexRune(unshifted, char); i >= 0 && k.mods&shiftKey != 0 {
		k.typed = rune(shifted[i])
	} else if lower := unicode.ToLower(char); lower != char {
		k.char = lower
		if k.mods&ctrlKey == 0 { // "ctrl-C" is how people write ctrl-c
			k.mods |= shiftKey
		} else if k.mods&shiftKey == 0 {
			k.typed = lower
		}
	} else if k.mods&shiftKey != 0 {
		k.typed = unicode.ToUpper(char)
	}
}

// classic is what xterm.js sends: nil when there is nothing that could be sent. Where a page keeps a key for itself (shift with page up
// scrolls, shift with insert pastes), it is what xterm sends.
func (k *keyPress) classic(application bool) []byte {
	mods := k.mods
	if k.code >= 57376 {
		mods |= shiftKey
	}
	switch {
	case k.letter != 0 && mods == 0:
		if application || k.letter >= 'P' {
			return []byte{0x1b, 'O', k.letter}
		}
		return []byte{0x1b, '[', k.letter}
	case k.letter != 0:
		return fmt.Appendf(nil, "\x1b[1;%d%c", mods+1, k.letter)
	case k.number != 0:
		dull := k.name == "insert" || k.name == "pageup" || k.name == "pagedown" // they do not tell alt and super alone
		if mods == 0 || dull && mods&(shiftKey|ctrlKey) == 0 {
			return fmt.Appendf(nil, "\x1b[%d~", k.number)
		}
		return fmt.Appendf(nil, "\x1b[%d;%d~", k.number, mods+1)
	case k.name == "tab":
		if mods&shiftKey != 0 {
			return []byte("\x1b[Z")
		}
		return []byte{'\t'}
	}

	var out []byte
	if mods&altKey != 0 {
		out = append(out, 0x1b)
	}
	switch {
	case k.name == "enter":
		return append(out, '\r')
	case k.name == "esc":
		return append(out, 0x1b)
	case k.name == "backspace" && mods&ctrlKey != 0:
		return append(out, '\b')
	case k.name == "backspace":
		return append(out, 0x7f)
	case mods&superKey != 0:
		return nil
	case mods&ctrlKey == 0:
		return utf8.AppendRune(out, k.typed)
	}
	control, ok := k.control()
	if letter := k.char >= 'a' && k.char <= 'z' || k.char == ' '; mods&altKey != 0 && !letter {
		return utf8.AppendRune(out, k.typed)
	}
	if !ok {
		return nil
	}
	return append(out, control)
}

// control is the control character that a key gives together with ctrl.
func (k *keyPress) control() (byte, bool) {
	switch c := k.typed; {
	case k.char >= 'a' && k.char <= 'z':
		return byte(k.char) & 0x1f, true
	case c == ' ' || c == '@' || c == '2':
		return 0, true
	case c >= '3' && c <= '7':
		return byte(c) - '3' + 0x1b, true
	case c >= '[' && c <= '_':
		return byte(c) & 0x1f, true
	case c == '~':
		return 0x1e, true
	case c == '/':
		return 0x1f, true
	case c == '8' || c == '?':
		return 0x7f, true
	}
	return 0, false
}

// modifyOther is the key as xterm's modifyOtherKeys has it, CSI 27 ; modifiers ; character ~; nil when that level leaves the key as it is.
// Level 1 covers what has no bytes of its own otherwise, level 2 every modified key but plain capitals.
func (k *keyPress) modifyOther(level int) []byte {
	code := k.code
	if code == 0 {
		code = int(k.typed)
	}
	if level == 0 || k.mods == 0 || k.letter != 0 || k.number != 0 {
		return nil
	}
	isChar := k.name == ""
	if level >= 2 {
		if isChar && k.mods == shiftKey {
			return nil
		}
		return fmt.Appendf(nil, "\x1b[27;%d;%d~", k.mods+1, code)
	}
	_, hasControl := k.control()
	other := k.mods&superKey != 0 && isChar ||
		isChar && k.mods&ctrlKey != 0 && !hasControl ||
		k.name == "enter" && k.mods != altKey ||
		k.name == "tab" && k.mods&^shiftKey != 0
	if !other {
		return nil
	}
	return fmt.Appendf(nil, "\x1b[27;%d;%d~", k.mods+1, code)
}

// The flags of kitty's keyboard protocol (https://sw.kovidgoyal.net/kitty/keyboard-protocol/).
const (
	kittyDisambiguate = 1
	kittyAlternate    = 4
	kittyAllKeys      = 8
	kittyText         = 16
)

// kitty encodes the key in kitty's protocol. It reports presses only, so the flag for releases has no effect.
func (k *keyPress) kitty(flags int) []byte {
	mods := ""
	if k.mods != 0 {
		mods = ";" + strconv.Itoa(k.mods+1)
	}
	switch {
	case k.code >= 57376:
		return fmt.Appendf(nil, "\x1b[%d%su", k.code, mods)
	case k.name == "f3": // its letter form is how a terminal tells where the cursor is
		return fmt.Appendf(nil, "\x1b[13%s~", mods)
	case k.letter != 0 && mods == "":
		return []byte{0x1b, '[', k.letter}
	case k.letter != 0:
		return fmt.Appendf(nil, "\x1b[1%s%c", mods, k.letter)
	case k.number != 0:
		return fmt.Appendf(nil, "\x1b[%d%s~", k.number, mods)
	}

	text := k.typed != 0 && k.mods&^shiftKey == 0
	if flags&kittyAllKeys == 0 {
		if text {
			return utf8.AppendRune(nil, k.typed)
		}
		if k.mods == 0 && k.name != "esc" {
			return k.classic(false)
		}
	}
	code := k.code
	if code == 0 {
		code = int(k.char)
	}
	out := fmt.Appendf(nil, "\x1b[%d", code)
	if flags&kittyAlternate != 0 && k.mods&shiftKey != 0 && k.typed != 0 && k.typed != k.char {
		out = fmt.Appendf(out, ":%d", k.typed)
	}
	if out = append(out, mods...); flags&kittyText != 0 && text {
		if mods == "" {
			out = append(out, ';')
		}
		out = fmt.Appendf(out, ";%d", k.typed)
	}
	return append(out, 'u')
}

// Paste is what pasting a text sends: line ends as the enter key gives them, and brackets around it when the program asked for them. What
// would end the brackets early is taken out, since everything behind it would be taken for typed.
func (t *Terminal) Paste(text string) []byte {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\r"), "\n", "\r")
	if !t.modes.bracketedPaste {
		return []byte(text)
	}
	for _, end := range []string{"\x1b[201~", "\u009b201~"} {
		for strings.Contains(text, end) { // again: taking one out can make another
			text = strings.ReplaceAll(text, end, "")
		}
	}
	return []byte("\x1b[200~" + text + "\x1b[201~")
}

// Focus returns the report for a terminal that gets or loses the focus; nil unless the program wants such reports.
func (t *Terminal) Focus(in bool) []byte {
	switch {
	case !t.modes.sendFocus:
		return nil
	case in:
		return []byte("\x1b[I")
	}
	return []byte("\x1b[O")
}

// unknownKey is the error about a name that is none, with the names it might have been meant for.
func unknownKey(name, key string) error {
	var near []string
	for _, known := range KeyNames() {
		if distance(key, known) <= 2 && len(key) > 1 || len(key) > 2 && strings.HasPrefix(known, key) {
			near = append(near, known)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return distance(key, a) - distance(key, b) })
	if len(near) > 3 {
		near = near[:3]
	}
	if len(near) > 0 {
		return fmt.Errorf("key %q: unknown; did you mean %s?", name, strings.Join(near, ", "))
	}
	return fmt.Errorf("key %q: unknown; a key is one character or a name such as enter, up, f5, after modifiers such as ctrl- and alt-", name)
}

// distance is the number of letters to change, add or take away to come from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
