package cast_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/terminal/cast"
)

// Any input is read to its end, with events in the order of time.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[0.1,\"o\",\"x\"]\n#\n[1e300,\"r\",\"1x1\"]\n[1,\"x\",\"0\"]"))
	f.Add([]byte("{\"version\":2,\"width\":80,\"height\":24}\n[-1,\"o\",\"x\"]\n"))
	f.Add([]byte("{\n\"version\":1}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := cast.NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		for last := (cast.Event{}); ; {
			e, err := r.Next()
			if err != nil {
				return
			}
			if e.At < last.At {
				t.Fatalf("%v behind %v", e, last)
			}
			_, _, _ = e.Size()
			last = e
		}
	})
}

// Any text, written in any pieces, is read again.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\x1b[m\"\\\x00\xff€"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, piece uint8) {
		var out bytes.Buffer
		w, err := cast.NewWriter(&out, header(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for rest := data; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			_ = w.Output(at(0), rest[:n])
			rest = rest[n:]
		}
		_ = w.Exit(at(1), 0)
		got := ""
		_, events := readAll(t, out.String())
		for _, e := range events[:len(events)-1] {
			if !utf8.ValidString(e.Data) {
				t.Errorf("%q", e.Data)
			}
			got += e.Data
		}
		if want := string([]rune(string(data))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
