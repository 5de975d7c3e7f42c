package vt

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// hugeSequences are those that change every cell of the screen at once.
var hugeSequences = []struct{ name, bytes string }{
	{"DECALN", "\x1b#8"}, {"1049", "\x1b[?1049h\x1b[?1049l"}, {"SU", "\x1b[1000S"}, {"SU half", "\x1b[500S"}, {"SD half", "\x1b[500T"},
	{"ED", "\x1b[2J"}, {"IL", "\x1b[500L"}, {"DECIC", "\x1b[500'}"}, {"RIS", "\x1bc"},
}

// BenchmarkHuge is what they take on a screen of 1000x1000, in the default style and with a background.
func BenchmarkHuge(b *testing.B) {
	for _, pen := range []struct{ name, bytes string }{{"plain", ""}, {"background", "\x1b[41m"}} {
		for _, s := range hugeSequences {
			b.Run(s.name+"/"+pen.name, func(b *testing.B) {
				t := New(Config{Cols: 1000, Rows: 1000, Scrollback: 1000})
				sequence := []byte(pen.bytes + s.bytes)
				t.Write(sequence)
				b.ReportAllocs()
				for b.Loop() {
					t.Write(sequence)
				}
			})
		}
	}
}

// Their rows are used again instead of being made anew.
func TestHugeScreenIsReused(t *testing.T) {
	term := New(Config{Cols: 200, Rows: 300, Scrollback: 10})
	for _, s := range hugeSequences {
		sequence := []byte("\x1b[41m" + s.bytes)
		term.Write(sequence)
		if perRun := bytesPerRun(20, func() { term.Write(sequence) }); perRun > 4096 {
			t.Errorf("%s: %d bytes for %d cells", s.name, perRun, term.cols*term.rows)
		}
		term.check(t)
	}
}

// An alternate screen whose rows are used again is empty, also after the size has changed.
func TestAlternateScreenIsEmptyAgain(t *testing.T) {
	term := New(Config{Cols: 10, Rows: 3})
	for i, size := range [][2]int{{10, 3}, {10, 3}, {12, 3}, {12, 5}, {4, 2}, {20, 6}, {20, 6}} {
		term.Resize(size[0], size[1])
		term.Write([]byte("\x1b[?1049h"))
		for y := range term.rows {
			if text := term.line(y); text != "" || term.Row(y).Wrapped {
				t.Fatalf("time %d, row %d: %q", i, y, text)
			}
		}
		term.Write([]byte("\x1b[H" + strings.Repeat("left over ", 20)))
		term.check(t)
		term.Write([]byte("\x1b[?1049l"))
		term.check(t)
	}
}

// wideHistory fills the scrollback with lines of 1000 columns, each a line of its own or all of them one.
func wideHistory(oneLine bool) *Terminal {
	t := New(Config{Cols: 1000, Rows: 50, Scrollback: 100_000})
	row := bytes.Repeat([]byte("0123456789"), 100)
	for range 100_100 {
		t.Write(row)
		if !oneLine {
			t.Write([]byte("\r\n"))
		}
	}
	return t
}

// BenchmarkReflowHuge makes 1000 columns with a full scrollback narrower.
func BenchmarkReflowHuge(b *testing.B) {
	for _, oneLine := range []bool{false, true} {
		for _, cols := range []int{999, 300, 2, 1001} {
			b.Run(fmt.Sprintf("%d/oneLine=%v", cols, oneLine), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					b.StopTimer()
					t := wideHistory(oneLine)
					b.StartTimer()
					t.Resize(cols, 50)
				}
			})
		}
	}
}

// Wrapping lines again takes no more memory than the lines before and after it, however long they are.
func TestReflowIsBounded(t *testing.T) {
	for _, oneLine := range []bool{false, true} {
		term := New(Config{Cols: 1000, Rows: 10, Scrollback: 2000})
		row := strings.Repeat("0123456789", 100)
		for range 2100 {
			term.Write([]byte(row))
			if !oneLine {
				term.Write([]byte("\r\n"))
			}
		}
		for _, cols := range []int{300, 2, 1000} {
			kept := uint64(term.history.bytes + 32*len(term.history.lines))
			took := bytesPerRun(1, func() { term.Resize(cols, 10) })
			kept += uint64(term.history.bytes + 32*len(term.history.lines))
			if took > 2*kept+1<<19 {
				t.Errorf("to %d columns, one line %v: %d bytes, %d kept before and after", cols, oneLine, took, kept)
			}
			term.check(t)
		}
	}
}

// What is kept when lines become narrower does not depend on how much was kept before.
func TestReflowKeepsTheNewest(t *testing.T) {
	for _, cols := range []int{39, 17, 3, 2} {
		short, long := New(Config{Cols: 40, Rows: 5, Scrollback: 200}), New(Config{Cols: 40, Rows: 5, Scrollback: 5000})
		for _, term := range []*Terminal{short, long} {
			for i := range 600 {
				text := strings.Repeat(fmt.Sprintf("%d 漢字 \x1b[3%dmword\x1b[m ", i, i%8), 1+i%9)
				term.Write([]byte(text + "\x1b[44m\x1b[K\x1b[m\r\n"))
			}
			term.Resize(cols, 5)
			term.check(t)
		}
		if short.ScrollbackLen() != 200 {
			t.Errorf("%d columns: %d lines are kept", cols, short.ScrollbackLen())
		}
		newest, _, _ := short.Logical(short.ScreenLine() + int64(short.Cursor().Y) - 1)
		if want := strings.Repeat("599 漢字 word ", 6); strings.TrimRight(newest, " ") != strings.TrimRight(want, " ") {
			t.Errorf("%d columns: the newest line is %q, want %q", cols, newest, want)
		}
		for y := -150; y < 5; y++ {
			if got, want := string(short.RowANSI(y, nil)), string(long.RowANSI(y, nil)); got != want || short.Row(y).Wrapped != long.Row(y).Wrapped {
				t.Fatalf("%d columns, row %d: %q, want %q", cols, y, got, want)
			}
		}
	}
}

// bytesPerRun is how many bytes a call allocates.
func bytesPerRun(runs int, f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / uint64(runs)
}
