package output_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/output"
)

func TestResultCutsBetweenRunes(t *testing.T) {
	tests := []struct {
		name, in string
		limit    int64
		want     string
		whole    bool
	}{
		{"empty", "", 10, "", true},
		{"empty, limit 0", "", 0, "", true},
		{"limit 0", "abc", 0, "", false},
		{"negative limit", "abc", -1, "", false},
		{"fits", "abcdef", 6, "abcdef", true},
		{"even", "abcdefgh", 4, "abgh", false},
		{"odd: the head has more", "abcdefgh", 5, "abcgh", false},
		{"limit 1", "abcdefgh", 1, "a", false},
		{"head tears two bytes", "aéxxxxxxyz", 4, "ayz", false},
		{"head tears three", "a€xxxxxxxyz1", 6, "ayz1", false},
		{"head tears four", "😀xxxxxxxxxyz1", 6, "yz1", false},
		{"head ends with a rune", "aéxxxxxxyz1", 6, "aéyz1", false},
		{"tail tears two bytes", "abxxxxxxéz", 4, "abz", false},
		{"tail tears three", "abcxxxxxx€z", 6, "abcz", false},
		{"tail tears four", "abcxxxxxx😀", 6, "abc", false},
		{"tail begins with a rune", "abcxxxxxxéz", 6, "abcéz", false},
		{"both tear the same rune", "ab😀yz", 6, "abyz", false},
		{"not UTF-8: start without end", "a\xc3xxxxxxyz", 4, "a\xc3yz", false},
		{"not UTF-8: end without start", "abxxxxxx\xa9z", 4, "ab\xa9z", false},
		{"not UTF-8: too many continuations", "abcxxxx\x80\x80\x80\x80\x80\x80", 6, "abc\x80\x80\x80", false},
		{"not UTF-8: nothing before it", "\x80\x80\x80", 2, "\x80\x80", false},
		{"not UTF-8: surrogate", "a\xed\xa0\x80xxxxxyz1", 6, "a\xed\xa0yz1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLog(1 << 20)
			l.Append(output.Stderr, []byte(tt.in))
			got, truncated := l.Result(output.Stderr, tt.limit)
			if string(got) != tt.want || truncated == tt.whole {
				t.Errorf("Result is %q, truncated %v; want %q", got, truncated, tt.want)
			}
		})
	}
}

func TestResultAcrossAGapIsUTF8(t *testing.T) {
	for _, text := range []string{"é", "€", "😀", "aé€😀"} {
		for shift := range 4 {
			l := newLog(600_000)
			all := strings.Repeat("x", shift) + strings.Repeat(text, 4_000_000/len(text))
			l.Append(output.Stdout, []byte(all))
			for _, limit := range []int64{1000, 1001, 1002, 1003, 1 << 20, 1 << 30} {
				got, truncated := l.Result(output.Stdout, limit)
				if !truncated || !utf8.Valid(got) {
					t.Errorf("%q shifted by %d, limit %d: truncated %v, valid %v", text, shift, limit, truncated, utf8.Valid(got))
				}
				if want := min(limit, 600_000) - 6; int64(len(got)) < want {
					t.Errorf("%d bytes, want %d", len(got), want)
				}
			}
		}
	}
}

func TestResultTakesMoreOfTheTailIfTheHeadIsShort(t *testing.T) {
	l := newLog(100_000)
	l.Append(output.Stdout, pattern(0, 1_000_000))
	buf := make([]byte, 1_000_000)
	head, _, _ := l.ReadAt(output.Stdout, 0, buf)
	_, gapTo, _ := l.ReadAt(output.Stdout, int64(head), buf)
	kept := int64(head) + 1_000_000 - gapTo
	for _, limit := range []int64{kept - 1, kept, kept + 1} {
		got, truncated := l.Result(output.Stdout, limit)
		if want := min(limit, kept); int64(len(got)) < want-6 || int64(len(got)) > want || !truncated {
			t.Errorf("limit %d: %d bytes of %d kept, truncated %v", limit, len(got), kept, truncated)
		}
	}
}
