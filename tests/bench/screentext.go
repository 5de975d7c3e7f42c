package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
)

// screenText is output of one kind, as terminals are given it.
type screenText struct {
	name   string
	target float64 // in MB/s; 0 for none
	text   []byte
}

// screenTexts makes about a megabyte of each kind. They are the same in every run.
func screenTexts() []screenText {
	make := func(name string, target float64, begin, end string, more func(r *rand.Rand, b *bytes.Buffer)) screenText {
		r := rand.New(rand.NewPCG(1, uint64(len(name))))
		b := bytes.NewBufferString(begin)
		for b.Len() < 1<<20 {
			more(r, b)
		}
		b.WriteString(end)
		return screenText{name, target, b.Bytes()}
	}
	return []screenText{
		make("plain", 50, "", "", plainLine),
		make("colour", 40, "", "", colourLine),
		make("TUI", 40, "\x1b[?1049h\x1b[H\x1b[2J", "\x1b[?1049l", tuiPart),
		make("CJK", 0, "", "", cjkLine),
		make("unicode", 0, "", "", unicodeLine),
	}
}

// plainLine is printable ASCII, now and then longer than the screen is wide.
func plainLine(r *rand.Rand, b *bytes.Buffer) {
	for n := 40 + r.IntN(60); n > 0; n-- {
		b.WriteByte(byte(' ' + r.IntN('~'-' '+1)))
	}
	b.WriteString("\r\n")
}

// colourLine is what ls, git and compilers print: words, most of them in some colour.
func colourLine(r *rand.Rand, b *bytes.Buffer) {
	for range 8 {
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(b, "\x1b[%dm%s\x1b[0m ", 30+r.IntN(8), "modified"[:2+r.IntN(7)])
		case 1:
			fmt.Fprintf(b, "\x1b[1;38;5;%dm%s\x1b[m ", r.IntN(256), "internal/terminal"[:4+r.IntN(14)])
		case 2:
			fmt.Fprintf(b, "\x1b[38;2;%d;%d;128m%s\x1b[39m ", r.IntN(8)*32, r.IntN(8)*32, "function"[:3+r.IntN(6)])
		default:
			b.WriteString("plain words ")
		}
	}
	b.WriteString("\r\n")
}

// tuiPart is what a full-screen program draws again and again: a bar, a row of a list, a
// region that scrolls, a meter, a frame.
func tuiPart(r *rand.Rand, b *bytes.Buffer) {
	row := 1 + r.IntN(24)
	switch r.IntN(6) {
	case 0:
		fmt.Fprintf(b, "\x1b[%d;%dH\x1b[7m %-30s \x1b[27m", row, 1+r.IntN(48), "status: 42 files, 3 changed")
	case 1:
		fmt.Fprintf(b, "\x1b[%d;1H\x1b[K\x1b[32msome_name.go\x1b[m │ the quick brown fox jumps over the lazy dog", row)
	case 2:
		b.WriteString("\x1b[2;23r\x1b[23;1H\n\x1b[rscrolled line of text in the region")
	case 3:
		fmt.Fprintf(b, "\x1b[%d;%dH\x1b[38;5;%dm████████▒▒▒▒\x1b[0m %3d%%", row, 1+r.IntN(60), r.IntN(256), r.IntN(100))
	case 4:
		fmt.Fprintf(b, "\x1b[%d;1H┌%s┐", row, strings.Repeat("─", 32))
	default:
		fmt.Fprintf(b, "\x1b[?25l\x1b[%d;1H%-78s\x1b[?25h", row, "total 1234  drwxr-xr-x  2 user user 4096 main.go")
	}
}

// cjkLine is ideographs, which are two columns wide.
func cjkLine(r *rand.Rand, b *bytes.Buffer) {
	for n := 20 + r.IntN(20); n > 0; n-- {
		b.WriteRune(rune(0x4e00 + r.IntN(0x5000)))
	}
	b.WriteString("\r\n")
}

// unicodeLine has accents, combining marks, emoji and symbols between words.
func unicodeLine(r *rand.Rand, b *bytes.Buffer) {
	words := []string{"naïve café ", "e\u0301te\u0301 ", "✔ done ", "→ next ", "😀 ", "“quoted” — ", "┌──┐ ", "plain text ", "Привет мир "}
	for range 8 {
		b.WriteString(words[r.IntN(len(words))])
	}
	b.WriteString("\r\n")
}

// fullLines are n lines of 80 columns each: of plain text, or in runs of 8 columns that
// each have another colour.
func fullLines(n int, colour bool) []byte {
	r := rand.New(rand.NewPCG(2, 2))
	var b bytes.Buffer
	for range n {
		for column := range 80 {
			if colour && column%8 == 0 {
				fmt.Fprintf(&b, "\x1b[38;5;%dm", r.IntN(256))
			}
			b.WriteByte(byte('!' + r.IntN('~'-'!'+1)))
		}
		b.WriteString("\x1b[m\r\n")
	}
	return b.Bytes()
}
