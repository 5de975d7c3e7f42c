package vt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// readStreams reads the streams of a kind: synth, rand or real.
func readStreams(t testing.TB, kind string) []stream {
	return readLines[stream](t, "testdata/"+kind+".streams.jsonl.gz")
}

// apply does what an op says.
func (o op) apply(t *Terminal) {
	if o.Resize != nil {
		t.Resize(o.Resize[0], o.Resize[1])
	} else {
		t.Write(o.Write)
	}
}

// resumed loads a snapshot of term into a fresh terminal.
func resumed(term *Terminal) *Terminal {
	fresh := New(Config{Cols: term.cols, Rows: term.rows, Scrollback: term.history.limit})
	fresh.Write(term.Snapshot(-1))
	return fresh
}

// play is a terminal after the ops of s up to, not including, number at, and n bytes of that one.
func play(s stream, at, n int) *Terminal {
	term := New(Config{Cols: s.Cols, Rows: s.Rows, Scrollback: 10000})
	for _, o := range s.Ops[:at] {
		o.apply(term)
	}
	if at < len(s.Ops) {
		term.Write(s.Ops[at].Write[:n])
	}
	term.Replies()
	return term
}

// goOn does what is left of s after n bytes of op number at.
func goOn(term *Terminal, s stream, at, n int) {
	if at == len(s.Ops) {
		return
	}
	if s.Ops[at].Resize != nil {
		s.Ops[at].apply(term)
	} else {
		term.Write(s.Ops[at].Write[n:])
	}
	for _, o := range s.Ops[at+1:] {
		o.apply(term)
	}
}

// checkLoaded says what is different in a terminal that loads a snapshot of term, and returns it.
func checkLoaded(term *Terminal) (other *Terminal, different string) {
	other = resumed(term)
	if replies := other.Replies(); len(replies) > 0 {
		return other, fmt.Sprintf("the snapshot was answered with %q", replies)
	}
	return other, firstDifference(dump(term), dump(other))
}

// TestSnapshotOfSmallStreams cuts every feature test at every byte (long ones at 64 of them), and goes on from some.
func TestSnapshotOfSmallStreams(t *testing.T) {
	for _, s := range readStreams(t, "synth") {
		end := dump(play(s, len(s.Ops), 0))
		for at, o := range s.Ops {
			step := 1 + len(o.Write)/64
			if testing.Short() {
				step += 6
			}
			for n := 0; n <= len(o.Write); n += step {
				other, different := checkLoaded(play(s, at, n))
				if different == "" && n%5 == len(s.Name)%5 {
					goOn(other, s, at, n)
					different = firstDifference(end, dump(other))
				}
				if different != "" {
					t.Errorf("%s: op %d byte %d: %s", s.Name, at, n, different)
					break
				}
			}
		}
	}
}

func TestSnapshotOfRandomStreams(t *testing.T) { cutRandomly(t, "rand", 2) }
func TestSnapshotOfRecordings(t *testing.T)    { cutRandomly(t, "real", 20) }

// cutRandomly cuts each recording of a kind at some bytes, and goes on to its end.
func cutRandomly(t *testing.T, kind string, cuts int) {
	if testing.Short() {
		cuts = max(1, cuts/8)
	}
	random := rand.New(rand.NewPCG(1, 2))
	equal, total := 0, 0
	for _, s := range readStreams(t, kind) {
		end := dump(play(s, len(s.Ops), 0))
		for range cuts {
			at := random.IntN(len(s.Ops))
			n := random.IntN(len(s.Ops[at].Write) + 1)
			other, loaded := checkLoaded(play(s, at, n))
			goOn(other, s, at, n)
			ended := firstDifference(end, dump(other))
			total++
			if loaded == "" && ended == "" {
				equal++
			} else {
				t.Errorf("%s: op %d byte %d:\nloaded: %s\nended: %s", s.Name, at, n, loaded, ended)
			}
		}
	}
	t.Logf("%d of %d cuts are equal", equal, total)
}

func TestSnapshotKeepsAskedScrollback(t *testing.T) {
	term := New(Config{Cols: 20, Rows: 3, Scrollback: 100})
	for i := range 30 {
		fmt.Fprintf(asWriter{term}, "line %d\r\n", i)
	}
	for _, n := range []int{0, 1, 7, 28, 1000} {
		fresh := New(Config{Cols: 20, Rows: 3, Scrollback: 100})
		fresh.Write(term.Snapshot(n))
		if want := min(n, 28); fresh.ScrollbackLen() != want {
			t.Errorf("asked for %d: got %d lines", n, fresh.ScrollbackLen())
		}
		for y := -fresh.ScrollbackLen(); y < 3; y++ {
			if fresh.RowText(y) != term.RowText(y) {
				t.Errorf("asked for %d: row %d is %q, not %q", n, y, fresh.RowText(y), term.RowText(y))
			}
		}
	}
}

type asWriter struct{ *Terminal }

func (w asWriter) Write(p []byte) (int, error) {
	w.Terminal.Write(p)
	return len(p), nil
}

// TestSnapshotIsSmall: text costs itself and little more.
func TestSnapshotIsSmall(t *testing.T) {
	term := New(Config{Cols: 80, Rows: 24, Scrollback: 1000})
	text := bytes.Repeat([]byte("\x1b[1;31mred \x1b[22mthin \x1b[32mgreen\x1b[0m plain\r\n"), 200)
	term.Write(text)
	if n := len(term.Snapshot(-1)); n > len(text)+100 {
		t.Errorf("%d bytes for a stream of %d", n, len(text))
	}
}

// FuzzSnapshot: after any input, a terminal that loads the snapshot is equal, and answers nothing in it. A byte 0xff is a resize to
// what the next two bytes say.
func FuzzSnapshot(f *testing.F) {
	for _, kind := range []string{"synth", "rand"} {
		for i, r := range readStreams(f, kind) {
			if i%16 == 0 && len(r.Ops) > 0 {
				f.Add(uint8(r.Cols), uint8(r.Rows), r.Ops[0].Write)
			}
		}
	}
	for seed := range uint64(50) {
		for _, o := range newStream("wild", false, seed).Ops {
			f.Add(uint8(seed), uint8(seed%7), o.Write)
		}
	}
	f.Fuzz(func(t *testing.T, cols, rows uint8, stream []byte) {
		term := New(Config{Cols: int(cols), Rows: int(rows % 64), Scrollback: 50})
		for len(stream) > 0 {
			i := bytes.IndexByte(stream, 0xff)
			if i < 0 || i+2 >= len(stream) {
				term.Write(stream)
				break
			}
			term.Write(stream[:i])
			term.Resize(int(stream[i+1]), int(stream[i+2]%64))
			stream = stream[i+3:]
		}
		other := resumed(term)
		if replies := other.Replies(); len(replies) > 0 {
			t.Fatalf("the snapshot was answered with %q", replies)
		}
		if d := firstDifference(dump(term), dump(other)); d != "" {
			t.Fatalf("%s\nsnapshot: %q", d, term.Snapshot(-1))
		}
	})
}

func BenchmarkSnapshot(b *testing.B) {
	for _, kind := range []struct {
		name string
		line func(i int) string
	}{
		{"plain", func(int) string {
			return "The quick brown fox jumps over the lazy dog, again and again, until it is tired.\r\n"
		}},
		{"colour", func(i int) string {
			return fmt.Sprintf("\x1b[32m%4d\x1b[0m \x1b[1;34mname\x1b[0m: \x1b[38;5;208mvalue\x1b[0m and \x1b[38;2;10;200;30mmore\x1b[0m of it, to the end of the row\r\n", i)
		}},
		{"full", func(i int) string { // every cell written, another colour every eight
			var line strings.Builder
			for k := range 10 {
				fmt.Fprintf(&line, "\x1b[38;5;%dmcoloured", (i*10+k)%256)
			}
			return line.String()
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			term := New(Config{Cols: 80, Rows: 24, Scrollback: 10000})
			for i := range 10100 {
				term.Write([]byte(kind.line(i)))
			}
			size := 0
			for b.Loop() {
				size = len(term.Snapshot(-1))
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

// states of every kind, to be restored whether or not the terminal that loads the snapshot was in use before.
var snapshotStates = map[string]string{
	"protected cells":        "\x1b[1\"qab\x1b[31mcd\x1b[0\"qef\x1b[1\"q\x1b[1;3;9;32mg\x1b[m\x1b[1\"q\x1b[2mh\x1b[H",
	"directory":              "\x1b]7;file://host/tmp/a%20b\x1b\\",
	"colours":                "\x1b]4;1;rgb:12/34/56;200;#abcdef\x07\x1b]11;#102030\x07\x1b]12;rgb:ff/00/00\x07",
	"titles":                 "\x1b]0;one\x07\x1b[22t\x1b]2;two\x07\x1b[22;2t\x1b]1;icon\x07\x1b]2;three — ✳\x07",
	"keyboard of both":       "\x1b[>1u\x1b[>5u\x1b[?1049h\x1b[>8u\x1b[?1049l",
	"keyboard of the other":  "\x1b[>1u\x1b[?1049h\x1b[>8u",
	"mouse":                  "\x1b[?1002h\x1b[?1006h\x1b[?1004h",
	"keys":                   "\x1b[?1h\x1b=\x1b[>4;2m\x1b[?2004h\x1b[?2031h",
	"cursor":                 "\x1b[5 q\x1b[?12l\x1b[?25l",
	"hidden link":            "\x1b]8;id=x;https://example.com\x1b\\a\x1b[m",
	"colour of no underline": "\x1b[58:5:9m",
	"new lines":              "\x1b[20h",
	"pending, emptied":       "\x1b[?1049h\x1b[44m0123456789\x1b[2K",
	"pending, drawing":       "\x1b[?1049h\x1b(0\x1b[2Gqqqqqqqqq\x1b[m",
	"pending and inserting":  "\x1b[4h0123456789",
	"origin, outside":        "\x1b[4;5H\x1b7\x1b[1;2r\x1b[?6h\x1b8",
	"batch":                  "\x1b[?2026hx",
	"saved far above":        "\x1b[3;4H\x1b[4;31m\x1b7\x1b[m" + "\x1b[5;1H\n\n\n\n\n\n\n\n\n",
	"saved far below":        "\n\n\n\n\n\n\n\n\n\n\x1b7\x1b[3J",
	"unfinished":             "x\x1b[38;5;1",
	"unfinished title":       "x\x1b]2;té\xc3",
	"unfinished character":   "x\xe6\x97",
}

func TestSnapshotOfStates(t *testing.T) {
	const mess = "\x1b[20h\x1b[?25l\x1b[4h\x1b[?7l\x1b[3g\x1b(0\x1b[?1049h\x1b[2;4r\x1b[?6h\x1b[31;1;4m\x1b[1\"q\x1b]8;;http://old\x07\x1b]2;old\x07text\x1b[?1003h\x1b[>1u\x1b7\x1b]0;open"
	for name, stream := range snapshotStates {
		term := New(Config{Cols: 10, Rows: 5, Scrollback: 50})
		term.Write([]byte(stream))
		if _, different := checkLoaded(term); different != "" {
			t.Errorf("%s: %s", name, different)
		}
		used := New(Config{Cols: 10, Rows: 5, Scrollback: 50})
		used.Write([]byte(mess))
		used.Write(term.Snapshot(-1))
		if d := firstDifference(dump(term), dump(used)); d != "" {
			t.Errorf("%s, into a terminal that was in use: %s", name, d)
		}
	}
}
