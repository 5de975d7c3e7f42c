package ui

import (
	"testing"
	"time"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain":          "plain",
		"grün €":         "grün €",
		"a\nb\tc":        `a\nb\tc`,
		"\x1b[31mred":    `\x1b[31mred`,
		"bad \xff utf-8": `bad \xff utf-8`,
		"\u202eabc":      `\xe2\x80\xaeabc`, // would turn the line around
		"real \ufffd":    "real \ufffd",
	} {
		if got := Printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"äöüß", 3, "äö…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
	} {
		if got := Shorten(c.in, c.n); got != c.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:            "0s",
		12 * time.Millisecond:   "12ms",
		1500 * time.Millisecond: "1.5s",
		59 * time.Second:        "59s",
		61 * time.Second:        "1m01s",
		90 * time.Minute:        "1h30m",
		72 * time.Hour:          "3d",
	} {
		if got := Span(d); got != want {
			t.Errorf("span(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[float64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 16 << 20: "16 MiB", 3 << 40: "3 TiB"} {
		if got := BytesText(n); got != want {
			t.Errorf("bytesText(%v) = %q, want %q", n, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext":           "plain\n\ttext",
		"a\x1b]0;title\x07b":      `a\x1b]0;title\x07b`,
		"one\r\ntwo\rthree":       "one\ntwo\\x0dthree",
		"\u009b31m c1":            `\x9b31m c1`,
		"\u202etxt.exe":           `\u202etxt.exe`,
		"👩\u200d👩 ok, grün":       "👩\u200d👩 ok, grün",
		"bad \xff byte\x1b":       `bad \xff byte\x1b`,
		"del\x7f bell\x07 back\b": `del\x7f bell\x07 back\x08`,
	} {
		if got := Clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}
