package dialogue

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// told is a line in a form that a test can compare.
func told(l line) string {
	return fmt.Sprintf("%d:%d:%v:%s", l.start, l.size, l.lost, l.text)
}

func whole(text string, most int64) (list []string, tail string) {
	l := lines{limit: most}
	l.add([]byte(text), func(one line) { list = append(list, told(one)) })
	return list, string(l.tail())
}

func TestLinesAreTheSameHoweverTheyCome(t *testing.T) {
	text := "{}\n\n" + strings.Repeat("ä", 40) + "\r\n" + strings.Repeat("x", 100) + "\nlast"
	want, tail := whole(text, 64)
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		l := lines{limit: 64}
		var got []string
		for l.end < int64(len(text)) {
			// Any piece that begins where something is known: known bytes come again.
			from := rng.Int64N(l.end + 1)
			to := min(from+rng.Int64N(60), int64(len(text)))
			if round == 0 {
				from, to = l.end, l.end+1
			}
			offset, data := l.unseen(from, []byte(text)[from:to])
			if len(data) > 0 && offset != l.end {
				t.Fatalf("fresh bytes at %d, want %d", offset, l.end)
			}
			l.add(data, func(one line) { got = append(got, told(one)) })
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || string(l.tail()) != tail {
			t.Fatalf("round %d: got %q and %q\nwant %q and %q", round, got, l.tail(), want, tail)
		}
	}
}

func TestLineTooLong(t *testing.T) {
	got, _ := whole(strings.Repeat("x", 100)+"\nshort\n", 64)
	want := []string{"0:100:false:" + strings.Repeat("x", 64), "101:5:false:short"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, _ := whole(strings.Repeat("x", 64)+"\n", 64); got[0] != "0:64:false:"+strings.Repeat("x", 64) {
		t.Errorf("a line of just the length: %q", got)
	}
}

func TestLinesBehindAGap(t *testing.T) {
	l := lines{limit: 64}
	var got []string
	each := func(one line) { got = append(got, told(one)) }
	l.add([]byte("one\ntw"), each)
	cut, any := l.skip(20)
	if !any || string(cut.text) != "tw" || cut.start != 4 {
		t.Errorf("cut off: %+v", cut)
	}
	offset, data := l.unseen(15, []byte("12345end\nnext\n"))
	if offset != 20 || !bytes.Equal(data, []byte("end\nnext\n")) {
		t.Errorf("fresh: %d %q", offset, data)
	}
	l.add(data, each)
	want := []string{"0:3:false:one", "20:3:true:end", "24:4:false:next"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\n\r\nb"), uint8(3))
	f.Fuzz(func(t *testing.T, text []byte, cut uint8) {
		want, tail := whole(string(text), 16)
		l := lines{limit: 16}
		var got []string
		n := int(cut)%7 + 1
		for from := 0; from < len(text); from += n {
			_, data := l.unseen(int64(from), text[from:min(from+n, len(text))])
			l.add(data, func(one line) { got = append(got, told(one)) })
			if _, again := l.unseen(0, text[:from]); len(again) > 0 {
				t.Fatal("what has come is fresh")
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || string(l.tail()) != tail {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
