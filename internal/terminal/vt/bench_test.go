package vt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// samples are outputs of the kinds that terminals see, about a megabyte each.
var samples = map[string]func() []byte{
	"plain":   plainSample,
	"colour":  colourSample,
	"tui":     tuiSample,
	"cjk":     cjkSample,
	"unicode": unicodeSample,
}

// BenchmarkWrite writes 32 KiB at a time to 80x24 with 10,000 lines of scrollback.
func BenchmarkWrite(b *testing.B) {
	for _, name := range []string{"plain", "colour", "tui", "cjk", "unicode"} {
		b.Run(name, func(b *testing.B) {
			sample := samples[name]()
			t := New(Config{Cols: 80, Rows: 24, Scrollback: 10000})
			t.Write(sample)
			b.SetBytes(int64(len(sample)))
			b.ReportAllocs()
			for b.Loop() {
				for rest := sample; len(rest) > 0; {
					n := min(len(rest), 32<<10)
					t.Write(rest[:n])
					rest = rest[n:]
				}
			}
		})
	}
}

// BenchmarkReflow makes a terminal with 10,000 lines of scrollback narrower and wider again.
func BenchmarkReflow(b *testing.B) {
	t := New(Config{Cols: 80, Rows: 24, Scrollback: 10000})
	t.Write(colourSample())
	for b.Loop() {
		t.Resize(60, 24)
		t.Resize(80, 24)
	}
}

// BenchmarkMemory says what a terminal with 10,000 full lines of scrollback takes.
func BenchmarkMemory(b *testing.B) {
	for _, name := range []string{"plain", "colour"} {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(float64(memoryOf(samples[name]()))/(1<<20), "MiB")
		})
	}
}

// memoryOf is the heap that a terminal takes whose scrollback is full.
func memoryOf(sample []byte) uint64 {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	t := New(Config{Cols: 80, Rows: 24, Scrollback: 10000})
	for t.history.len() < 10000 {
		t.Write(sample)
	}
	after := heap()
	runtime.KeepAlive(t)
	runtime.KeepAlive(sample)
	return after - before
}

func plainSample() []byte {
	r := rand.New(rand.NewPCG(1, 1))
	var b bytes.Buffer
	for b.Len() < 1<<20 {
		for n := 40 + r.IntN(60); n > 0; n-- {
			b.WriteByte(byte(0x20 + r.IntN(0x5f)))
		}
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// colourSample is what ls, git and compilers print: words in colour.
func colourSample() []byte {
	r := rand.New(rand.NewPCG(2, 2))
	var b bytes.Buffer
	for b.Len() < 1<<20 {
		for n := 8; n > 0; n-- {
			switch r.IntN(4) {
			case 0:
				fmt.Fprintf(&b, "\x1b[%dm%s\x1b[0m ", 30+r.IntN(8), "modified"[:2+r.IntN(6)])
			case 1:
				fmt.Fprintf(&b, "\x1b[1;38;5;%dm%s\x1b[m ", r.IntN(256), "internal/terminal"[:4+r.IntN(12)])
			case 2:
				fmt.Fprintf(&b, "\x1b[38;2;%d;%d;%dm%s\x1b[39m ", r.IntN(8)*32, r.IntN(8)*32, 128, "function"[:3+r.IntN(5)])
			default:
				b.WriteString("plain words ")
			}
		}
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// tuiSample is a full-screen program that draws its parts again and again.
func tuiSample() []byte {
	r := rand.New(rand.NewPCG(3, 3))
	var b bytes.Buffer
	b.WriteString("\x1b[?1049h\x1b[H\x1b[2J")
	for b.Len() < 1<<20 {
		switch r.IntN(6) {
		case 0:
			fmt.Fprintf(&b, "\x1b[%d;%dH\x1b[7m %-30s \x1b[27m", 1+r.IntN(24), 1+r.IntN(48), "status: 42 files, 3 changed")
		case 1:
			fmt.Fprintf(&b, "\x1b[%d;1H\x1b[K\x1b[32m%s\x1b[m │ %s", 1+r.IntN(24), "some_name.go", "the quick brown fox jumps over the lazy dog")
		case 2:
			fmt.Fprintf(&b, "\x1b[2;23r\x1b[23;1H\n\x1b[rscrolled line of text in the region")
		case 3:
			fmt.Fprintf(&b, "\x1b[%d;%dH\x1b[38;5;%dm████████▒▒▒▒\x1b[0m %3d%%", 1+r.IntN(24), 1+r.IntN(60), r.IntN(256), r.IntN(100))
		case 4:
			fmt.Fprintf(&b, "\x1b[%d;1H┌────────────────────────────────┐", 1+r.IntN(24))
		default:
			fmt.Fprintf(&b, "\x1b[?25l\x1b[%d;1H%-78s\x1b[?25h", 1+r.IntN(24), "total 1234  drwxr-xr-x  2 user user 4096 main.go")
		}
	}
	b.WriteString("\x1b[?1049l")
	return b.Bytes()
}

func cjkSample() []byte {
	r := rand.New(rand.NewPCG(4, 4))
	var b bytes.Buffer
	for b.Len() < 1<<20 {
		for n := 20 + r.IntN(20); n > 0; n-- {
			b.WriteRune(rune(0x4e00 + r.IntN(0x5000)))
		}
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// unicodeSample has accents, combining marks, emoji and symbols between words.
func unicodeSample() []byte {
	r := rand.New(rand.NewPCG(5, 5))
	var b bytes.Buffer
	for b.Len() < 1<<20 {
		for n := 8; n > 0; n-- {
			b.WriteString(pick(r, "naïve café ", "e\u0301te\u0301 ", "✔ done ", "→ next ", "😀 ", "“quoted” — ", "┌──┐ ", "plain text ", "Привет мир "))
		}
		b.WriteString("\r\n")
	}
	return b.Bytes()
}
