package chat

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/cli/ui"
)

const (
	// mostPasted is how many pasted characters are put into the line. For longer text and for
	// several lines, a placeholder is shown, which the text replaces when the line is sent.
	mostPasted = 400
	// escapeTime is how soon the rest of a sequence follows its Esc. A terminal sends both at once;
	// a person who presses Esc and then another key is slower.
	escapeTime = 100 * time.Millisecond

	pasteBegins, pasteEnds   = "\x1b[200~", "\x1b[201~"
	probe                    = "\x07"   // the editor ignores it, but reports its line
	mouse                    = "\x1b[M" // begins an old report of the mouse, for an earlier program
	clearLine                = "\x05\x15"
	keyEscape                = 0x1b
	keyInterrupt, keySuspend = 0x03, 0x1a // key handles the second one after all earlier keys
	// keyDeleteNext deletes the next word. The library has no such key, so key does it. It is no
	// character of Unicode, so no keyboard sends it.
	keyDeleteNext = '\ufdd0'
)

// The keys of the library.
const (
	keyHome, keyEnd = "\x01", "\x05"
	keyWordLeft     = "\x1b[1;3D"
	keyWordRight    = "\x1b[1;3C"
	keyDeleteWord   = "\x17"
	keyDelete       = "\x1b[3~"
)

// alt and ctrl are bits of the modifiers of a key. A sequence has their sum plus one.
const alt, ctrl = 2, 4

// newLineKeys add a line to the message without sending it: Alt-Enter, and Shift-Enter if the
// terminal distinguishes it from Enter.
var newLineKeys = []string{"\x1b\r", "\x1b\n", "\x1b[13;2u", "\x1b[13;3u", "\x1b[27;2;13~", "\x1b[27;3;13~"}

// Read returns translated keys to the library.
func (e *editor) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		select {
		case b, ok := <-e.chunks:
			if !ok {
				return 0, io.EOF
			}
			now := time.Now()
			e.mu.Lock()
			late := now.Sub(e.lastRead) > escapeTime
			e.lastRead = now
			e.mu.Unlock()
			if late {
				e.dropEscape(b)
			}
			e.translate(b)
		case <-e.done:
			return 0, io.EOF
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// dropEscape drops a held Esc if the late bytes b do not belong to it: the person has pressed Esc
// alone. They belong to it if both are one known key, which a slow line has cut.
func (e *editor) dropEscape(b []byte) {
	switch {
	case len(e.held) > 0 && e.held[0] != keyEscape: // the beginning of a character
		return
	case bytes.HasPrefix(e.held, []byte(mouse)): // on some terminals a key sends this
	case len(e.held) > 1 && strings.IndexByte(stringBegins, e.held[1]) < 0: // no person types this
		return
	case len(e.held) == 1:
		all := append(bytes.Clone(e.held), b...)
		cut := (b[0] == '[' || b[0] == 'O') && sequence(all) == len(all) && keyOf(all) != ""
		if cut || bytes.HasPrefix(all, []byte(pasteBegins)) {
			return
		}
	}
	e.held = nil
}

// translate turns typed bytes into keys that the library knows.
func (e *editor) translate(b []byte) {
	b = append(e.held, b...)
	e.held = nil
	for len(b) > 0 {
		n, out := e.next(b)
		if n == 0 { // the rest of the sequence is missing
			e.held = bytes.Clone(b)
			break
		}
		e.ready = append(e.ready, out...)
		b = b[n:]
	}
	if len(e.ready) > 0 {
		e.ready = append(e.ready, probe...)
	}
}

// next returns the length of the first key and its translation; 0 if the key is not complete.
func (e *editor) next(b []byte) (n int, out []byte) {
	switch b[0] {
	case keyInterrupt:
		select {
		case e.interrupts <- struct{}{}:
		default:
		}
		return 1, []byte(clearLine)
	case keyEscape:
	default:
		// The library stops at what is no character, and reads on only after the next key.
		if !utf8.FullRune(b) {
			return 0, nil
		}
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError {
			return size, []byte("?")
		}
		return size, b[:size]
	}
	n = sequence(b)
	if string(b[:n]) != pasteBegins {
		return n, []byte(keyOf(b[:n]))
	}
	end := bytes.Index(b, []byte(pasteEnds))
	if end < 0 {
		return 0, nil
	}
	return end + len(pasteEnds), e.paste(string(b[len(pasteBegins):end]))
}

// stringBegins are the characters that begin a string after Esc, such as a terminal's answer to a
// question of an earlier program.
const stringBegins = "]P_^X"

// sequence returns the length of the escape sequence at the beginning of b; 0 if it is not
// complete. A sequence ends before a byte that it cannot have.
func sequence(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch c := b[1]; {
	case bytes.HasPrefix(b, []byte(mouse)):
		n := len(mouse)
		for range 3 { // button, column, row
			if !utf8.FullRune(b[n:]) {
				return 0
			}
			_, size := utf8.DecodeRune(b[n:])
			n += size
		}
		return n
	case c == '[' || c == 'O':
		from := 2
		if bytes.HasPrefix(b, []byte("\x1b[[")) { // a function key of the Linux console
			from = 3
		}
		for i, c := range b[from:] {
			switch {
			case c < ' ' || c > '~':
				return from + i
			case c >= '@' || b[1] == 'O' && c != ';' && (c < '0' || c > '9'):
				return from + i + 1
			}
		}
		return 0
	case strings.IndexByte(stringBegins, c) >= 0:
		for i, c := range b[2:] {
			switch {
			case c == '\a':
				return 2 + i + 1
			case c == keyEscape && len(b) == 2+i+1:
				return 0
			case c == keyEscape && b[2+i+1] == '\\':
				return 2 + i + 2
			case c < ' ':
				return 2 + i
			}
		}
		return 0
	case c == '\r' || c == '\n' || c == '\b':
		return 2
	case c < ' ': // such as another Esc, or Ctrl-C
		return 1
	case !utf8.FullRune(b[1:]):
		return 0
	}
	_, size := utf8.DecodeRune(b[1:])
	return 1 + size
}

// keyOf returns what the library knows an escape sequence as; "" for nothing, such as a function
// key.
func keyOf(seq []byte) string {
	s := string(seq)
	if slices.Contains(newLineKeys, s) {
		return lineBreak
	}
	switch s {
	case "\x1bb", "\x1bB", "\x1bOd": // the last one is Ctrl-Left in rxvt
		return keyWordLeft
	case "\x1bf", "\x1bF", "\x1bOc":
		return keyWordRight
	case "\x1bd", "\x1bD":
		return string(keyDeleteNext)
	case "\x1b\x7f", "\x1b\b":
		return keyDeleteWord
	}
	if len(s) < 3 || s[1] != '[' && s[1] != 'O' {
		return ""
	}
	return cursorKey(s[2:len(s)-1], s[len(s)-1])
}

// cursorKey returns a key that moves or deletes: an arrow, Home, End or Delete. Its sequence has
// parameters, such as "1;5" with Ctrl, before its last character.
func cursorKey(parameters string, last byte) string {
	first, modifier, _ := strings.Cut(parameters, ";")
	words := false
	switch {
	case len(modifier) == 1 && modifier[0] >= '1' && modifier[0] <= '9':
		words = (modifier[0]-'1')&(alt|ctrl) != 0
	case modifier != "":
		return ""
	}
	if last == '~' {
		switch first {
		case "1", "7":
			return keyHome
		case "4", "8":
			return keyEnd
		case "3":
			if words {
				return string(keyDeleteNext)
			}
			return keyDelete
		}
		return ""
	}
	if first != "" && first != "1" {
		return ""
	}
	switch last {
	case 'A', 'B':
		return "\x1b[" + string(last)
	case 'C':
		if words {
			return keyWordRight
		}
		return "\x1b[C"
	case 'D':
		if words {
			return keyWordLeft
		}
		return "\x1b[D"
	case 'H':
		return keyHome
	case 'F':
		return keyEnd
	}
	return ""
}

// afterWord returns what follows the first word of a text.
func afterWord(text string) string {
	text = strings.TrimLeft(text, " "+lineBreak)
	if end := strings.IndexAny(text, " "+lineBreak); end >= 0 {
		return text[end:]
	}
	return ""
}

// paste returns what to put into the line for pasted text.
func (e *editor) paste(text string) []byte {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(text, "?"))
	if !strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r == 0x7f }) && utf8.RuneCountInString(text) <= mostPasted {
		return []byte(text)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	name := fmt.Sprintf("[pasted %d: %s]", len(e.pasted)+1, ui.Plural(len(ui.Lines(text)), "line", "lines"))
	e.pasted[name] = text
	return []byte(name)
}
