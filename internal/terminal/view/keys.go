package view

import (
	"fmt"
	"strconv"
	"strings"
)

// Keys finds the detach key in a person's input. It finds the key in every encoding that the
// terminal may use, also in several pieces, but not in pasted text. Only one goroutine at a
// time may use a Keys.
type Keys struct {
	// Encoded says that the terminal sends keys as sequences. Then an ESC is the beginning of
	// one and waits for its rest; else it is most likely the key itself and is passed on.
	Encoded bool

	char   byte // the control character; only when there is a key
	code   int  // of its key; 0 when there is no key
	paste  bool
	twice  bool   // pressed twice, it is for the program
	once   bool   // it was pressed, and whether it is pressed again is not known yet
	begun  []byte // the beginning of a sequence
	passed int    // how much of it was returned already
}

// maxHeld bounds a sequence that is waited for.
const maxHeld = 64

// NewKeys looks for the key of that name: ctrl- and a letter or one of @ \ ] ^ _, or none.
func NewKeys(name string) (*Keys, error) {
	if strings.EqualFold(name, "none") {
		return &Keys{}, nil
	}
	lower := strings.ToLower(name)
	key, ok := strings.CutPrefix(lower, "ctrl-")
	if !ok {
		key, ok = strings.CutPrefix(lower, "^")
	}
	// Enter and escape are needed for other things.
	if !ok || len(key) != 1 || !strings.Contains(`abcdefghijklnopqrstuvwxyz@\]^_`, key) {
		return nil, fmt.Errorf(`%q: must be like ctrl-b or ctrl-], but not ctrl-m or ctrl-[, or none`, name)
	}
	return &Keys{char: key[0] & 0x1f, code: int(key[0])}, nil
}

// Twice makes the key, pressed twice, one for the program: that is how it reaches a trl
// inside this one. Pressed once, it detaches when something else follows, or nothing does,
// see Pressed.
func (k *Keys) Twice() *Keys {
	k.twice = true
	return k
}

// Scan returns the input for the program, and whether it found the key that detaches. Input after
// that key is dropped. The beginning of a sequence is held back; see Held.
func (k *Keys) Scan(p []byte) (typed []byte, detach bool) {
	passed := k.passed
	p = append(k.begun, p...)
	k.begun, k.passed = nil, 0
	take := func(from, end int) {
		if from = max(from, passed); from < end {
			typed = append(typed, p[from:end]...)
		}
	}
	for i := 0; i < len(p); {
		n, isKey, isRelease := 1, false, false
		switch {
		case !k.paste && k.code != 0 && p[i] == k.char:
			isKey = true
		case p[i] == 0x1b && (i+1 == len(p) || p[i+1] == '['):
			var complete bool
			if n, complete = sequence(p[i:]); !complete && len(p)-i < maxHeld {
				k.begun = append([]byte(nil), p[i:]...)
				k.passed = max(passed-i, 0)
				if len(k.begun) == 1 && !k.Encoded {
					k.passed = 1
				}
				take(i, i+k.passed)
				return typed, false
			}
			switch seq := string(p[min(i+2, i+n) : i+n]); {
			case seq == "200~":
				k.paste = true
			case seq == "201~":
				k.paste = false
			case !k.paste:
				isKey, isRelease = k.is(seq)
			}
		}
		switch {
		case isKey && !k.twice:
			return typed, true
		case isKey && !k.once:
			k.once = true
		case isRelease && k.once: // between two presses
		case k.once && !isKey:
			return typed, true
		default:
			k.once = false
			take(i, i+n)
		}
		i += n
	}
	return typed, false
}

// Pressed reports whether the last input was the key. It detaches, unless the person presses it again.
func (k *Keys) Pressed() bool { return k.once }

// Held reports whether input is held back. The next Scan returns it, or Release, if no more input
// arrives for too long.
func (k *Keys) Held() bool { return k.passed < len(k.begun) }

// Release returns the input that is held back. If the rest of its sequence arrives later, Scan still
// recognizes it.
func (k *Keys) Release() []byte {
	held := k.begun[k.passed:]
	k.passed = len(k.begun)
	return held
}

// sequence is the length of the control sequence that p begins with. One that something
// else breaks off ends there.
func sequence(p []byte) (n int, complete bool) {
	for n = 2; n < len(p); n++ {
		switch {
		case p[n] >= 0x40 && p[n] <= 0x7e:
			return n + 1, true
		case p[n] < 0x20 || p[n] > 0x7e:
			return n, true
		}
	}
	return n, false
}

// is reports whether a sequence is the key with control, pressed or released: CSI 92;5u of the
// kitty keyboard protocol, also with what it may say beside that, or CSI 27;5;92~ of xterm.
func (k *Keys) is(seq string) (press, release bool) {
	if k.code == 0 || seq == "" {
		return false, false
	}
	final, params := seq[len(seq)-1], strings.Split(seq[:len(seq)-1], ";")
	switch {
	case final == 'u' && len(params) >= 2:
		code, _, _ := strings.Cut(params[0], ":")
		mods, event, _ := strings.Cut(params[1], ":")
		ours := k.pressed(code, mods)
		return ours && event != "3", ours && event == "3"
	case final == '~' && len(params) == 3 && params[0] == "27":
		return k.pressed(params[2], params[1]), false
	}
	return false, false
}

// pressed compares a key and its modifiers. Caps lock and num lock make no difference.
func (k *Keys) pressed(code, mods string) bool {
	const control, locks = 4, 64 | 128
	c, err := strconv.Atoi(code)
	m, err2 := strconv.Atoi(mods)
	return err == nil && err2 == nil && c == k.code && (m-1)&^locks == control
}
