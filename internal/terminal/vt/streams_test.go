package vt

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Random streams of the kinds that the recorded ones are of, and some that are nastier.

var kinds = map[string]func(*rand.Rand, *writer){
	"ascii":  func(r *rand.Rand, w *writer) { w.mix(r, words[:6], 40) },
	"uni":    func(r *rand.Rand, w *writer) { w.mix(r, words, 40) },
	"broken": func(r *rand.Rand, w *writer) { w.garbage(r, 40) },
	"wild":   func(r *rand.Rand, w *writer) { w.wild(r, 60) },
}

var words = []string{"lorem ipsum dolor", "hello", "world", "a b c d e f", "foo ", "----", "漢字", "日本", "😀", "é", "ñ", "e\u0301", "┌──┐", "█", "→", "한"}

// writer collects the operations of a stream.
type writer struct {
	cols, rows int
	ops        []op
	bytes      []byte
}

func (w *writer) print(format string, a ...any) { w.bytes = fmt.Appendf(w.bytes, format, a...) }

func (w *writer) flush() {
	if n := len(w.bytes); n > 0 && w.bytes[n-1] >= 0x80 {
		w.bytes = append(w.bytes, 'x') // the page loses characters that are cut in two
	}
	if len(w.bytes) > 0 {
		w.ops = append(w.ops, op{Write: w.bytes})
		w.bytes = nil
	}
}

func (w *writer) resize(r *rand.Rand) {
	w.flush()
	cols, rows := w.cols, w.rows
	switch r.IntN(4) {
	case 0:
		cols = 2 + r.IntN(60)
	case 1:
		rows = 1 + r.IntN(30)
	default:
		cols, rows = 2+r.IntN(60), 1+r.IntN(30)
	}
	w.cols, w.rows = cols, rows
	w.ops = append(w.ops, op{Resize: []int{cols, rows}})
}

// newStream makes the stream of a kind and a seed; the same ones each time.
func newStream(kind string, resizes bool, seed uint64) stream {
	r := rand.New(rand.NewPCG(seed, uint64(len(kind))))
	sizes := [][2]int{{80, 24}, {40, 10}, {20, 6}, {33, 7}, {10, 4}, {5, 3}}
	size := sizes[r.IntN(len(sizes))]
	w := &writer{cols: size[0], rows: size[1], ops: []op{}}
	for n := 1 + r.IntN(4); n > 0; n-- {
		kinds[kind](r, w)
		if resizes {
			w.resize(r)
		}
		if n > 1 && r.IntN(2) == 0 {
			w.flush()
			w.ops = append(w.ops, op{Checkpoint: 1 + r.IntN(2)})
		}
	}
	if resizes {
		kinds[kind](r, w)
	}
	w.flush()
	s := stream{Name: fmt.Sprintf("%s/%v/%d", kind, resizes, seed), Cols: size[0], Rows: size[1], Ops: w.ops}
	if r.IntN(3) == 0 {
		lines := []int{30, 100}[r.IntN(2)]
		s.Scrollback = &lines
	}
	return s
}

// generatedStreams are the ones whose states are recorded: half of them with resizes.
func generatedStreams() []stream {
	var all []stream
	for _, kind := range []string{"ascii", "uni", "broken", "wild"} {
		for seed := range uint64(150) {
			all = append(all, newStream(kind, seed%3 > 0, 1_000_000+seed))
		}
	}
	return all
}

// param is a small number, or none.
func param(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0, 1:
		return ""
	case 2:
		return "0"
	case 3:
		return fmt.Sprint(r.IntN(80))
	}
	return fmt.Sprint(1 + r.IntN(4))
}

// mix is text with ordinary sequences.
func (w *writer) mix(r *rand.Rand, words []string, most int) {
	for n := r.IntN(most); n > 0; n-- {
		switch r.IntN(12) {
		case 0, 1, 2, 3:
			w.print("%s", strings.Repeat(words[r.IntN(len(words))], 1+r.IntN(5)))
		case 4:
			w.print("%s", pick(r, "\r\n", "\n", "\r", "\b", "\t", "\r\n\r\n", "\x0e", "\x0f"))
		case 5:
			w.print("\x1b[%d;%dH", r.IntN(w.rows+2), r.IntN(w.cols+2))
		case 6:
			w.print("\x1b[%s%s", param(r), pick(r, "A", "B", "C", "D", "E", "F", "G", "d", "b", "I", "Z", "g", "`", "a", "e", "f", "H"))
		case 7:
			w.print("\x1b[%s%s", param(r), pick(r, "J", "K", "X", "@", "P", "L", "M", "S", "T"))
		case 8:
			w.print("%s", pick(r, "\x1b7", "\x1b8", "\x1b[s", "\x1b[u", "\x1bD", "\x1bE", "\x1bM", "\x1bH", "\x1b(0", "\x1b(B", "\x1b)0"))
		case 9:
			w.print("\x1b[%d;%dr", r.IntN(w.rows+1), r.IntN(w.rows+3))
		case 10:
			w.print("\x1b[%sm", pick(r, "", "0", "1", "2", "3", "4", "7", "9", "22", "24", "27", "31", "42", "90", "103", "39", "49", "38;5;141", "48;2;9;2;3", "1;33"))
		case 11:
			w.print("\x1b[?%d%s", []int{25, 1049, 1047, 47, 6, 7, 45, 1, 2004, 1000, 1003, 1048}[r.IntN(12)], pick(r, "h", "h", "l"))
		}
	}
}

// wild is everything there is.
func (w *writer) wild(r *rand.Rand, most int) {
	for n := r.IntN(most); n > 0; n-- {
		switch r.IntN(16) {
		case 0, 1, 2:
			w.mix(r, words, 4)
		case 3:
			w.print("%s", pick(r, "\u0301", "\u200d", "\ufe0f", "👩\u200d👩", "\u0301\u0302\u0303", "x\u20dd", "\ufeff", "\u00ad", "\u1100\u1161", "\u200b", "🇩🇪", "\u2028"))
		case 4:
			w.print("\x1b[%s%s", pick(r, "4", "20", "4;20"), pick(r, "h", "l"))
		case 5:
			w.print("\x1b[%s%s", param(r), pick(r, " @", " A", "'}", "'~", "!p", " q", "\"q", "$p", "?J", "?K"))
		case 6:
			w.print("\x1b[?%s%s", param(r), pick(r, "J", "K"))
		case 7:
			w.print("%s", pick(r, "\x1b#8", "\x1bn", "\x1bo", "\x1b|", "\x1b}", "\x1b~", "\x1b*0", "\x1b+A", "\x1b-K", "\x1b.R", "\x1b/Z", "\x1b%%G", "\x1b%%@", "\x1b=", "\x1b>", "\u0084", "\u0085", "\u0088", "\u008d"))
		case 8:
			w.print("%s", pick(r, "\x1b]0;title\x07", "\x1b]2;töte\x1b\\", "\x1b]1;x\x07", "\x1b]8;;http://a\x07", "\x1b]8;id=1;http://b\x07", "\x1b]8;;\x07", "\x1b[22t", "\x1b[23t", "\x1b[22;2t", "\x1b]0", "\x1b[?2026h", "\x1b[?2026l"))
		case 9:
			w.print("\x1b[%s", strings.Repeat(pick(r, "1;", "38;", "5;", "2:", "4:", ";", ":", "0;", "48;", "3"), r.IntN(7)))
			w.print("%s", pick(r, "m", "m", "m", "H"))
		case 10:
			for i := r.IntN(8); i >= 0; i-- {
				w.print("%s%s", pick(r, "\x1b[", "", "", ""), pick(r, "38", "48", "58", "5", "2", "1", "4", "21", "300", ":", ";", ";", ":", ";"))
			}
			w.print("m")
		case 11:
			if r.IntN(8) == 0 {
				w.print("\x1bc")
			}
		case 12:
			w.print("\x1b[?%d%s", []int{9, 1000, 1002, 1003, 1006, 66, 1004, 12, 2, 3, 5, 40, 69}[r.IntN(13)], pick(r, "h", "l"))
		case 13:
			w.print("\x1b[3J")
		case 14:
			w.garbage(r, 3)
		case 15:
			w.print("%s\x1b[%db", pick(r, "a", "漢", "e\u0301", "\x1b(0q"), r.IntN(60))
		}
	}
}

// garbage is what no program means to send.
func (w *writer) garbage(r *rand.Rand, most int) {
	letters := func(set string, most int) {
		for n := r.IntN(most); n > 0; n-- {
			w.bytes = append(w.bytes, set[r.IntN(len(set))])
		}
	}
	var printable strings.Builder
	for c := byte(0x20); c < 0x7f; c++ {
		printable.WriteByte(c)
	}
	for n := r.IntN(most); n > 0; n-- {
		switch r.IntN(8) {
		case 0, 1:
			letters(printable.String(), 20)
		case 2:
			w.print("\x1b[")
			letters("0123456789;:?><=!\"$# '", 8)
			w.bytes = append(w.bytes, byte(0x40+r.IntN(0x3f)))
		case 3:
			w.print("\x1b")
			w.bytes = append(w.bytes, byte(0x20+r.IntN(0x5f)))
		case 4:
			for i := r.IntN(5); i > 0; i-- {
				w.bytes = append(w.bytes, byte(0x80+r.IntN(0x80)))
			}
		case 5:
			w.print("\x1b%s", pick(r, "P", "]", "X", "^", "_", "]2;", "P$q", "P+q"))
			letters(printable.String(), 20)
			w.print("%s", pick(r, "\x1b\\", "\x07", "\x18", "\u009c", "é"))
		case 6:
			w.bytes = append(w.bytes, byte(r.IntN(0x20)))
		case 7:
			w.print("%s", pick(r, "\u009b1m", "\u0090abc\u009c", "\u009d0;t\u009c", "\x7f", "\xe2\x80", "\xf0\x9f\x98", "\x1b(", "\x1b[1"))
		}
	}
}

func pick(r *rand.Rand, s ...string) string { return s[r.IntN(len(s))] }
