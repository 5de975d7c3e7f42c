package cli

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func TestSizeFlag(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "4096": 4096, "64K": 64 << 10, "64k": 64 << 10, "1MiB": 1 << 20, "8M": 8 << 20, "10B": 10} {
		var f sizeFlag
		if err := f.Set(in); err != nil || *f.n != want {
			t.Errorf("Set(%q): %v, %v, want %v", in, f.n, err, want)
		}
	}
	for _, in := range []string{"", "K", "B", "lots", "-1", "1.5K", "9M", "1G", "99999999999999999999", "9223372036854775807K"} {
		var f sizeFlag
		if err := f.Set(in); err == nil {
			t.Errorf("Set(%q): no error, %v", in, *f.n)
		}
	}
}

func FuzzSizeFlag(f *testing.F) {
	for _, seed := range []string{"64K", "1MiB", "B", "-1", "8388608"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s sizeFlag
		if err := s.Set(text); err == nil && (*s.n < 0 || *s.n > api.MaxOutputLimit) {
			t.Errorf("Set(%q): %d", text, *s.n)
		}
	})
}

// FuzzMatching: the same lines match, in whichever pieces the output arrives.
func FuzzMatching(f *testing.F) {
	f.Add("one\ntwo\n\nthree", "o", uint8(3))
	f.Add("\n\n", "^$", uint8(1))
	f.Add("a\xff\nb", "a", uint8(2))
	f.Fuzz(func(t *testing.T, text, pattern string, size uint8) {
		re, err := regexp.Compile(pattern)
		if err != nil {
			t.Skip()
		}
		var want []byte
		for line := range strings.Lines(text) {
			if re.MatchString(strings.TrimSuffix(line, "\n")) {
				want = append(want, line...)
			}
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		got := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(r)
			got <- b
		}()
		l := &logs{app: &app{Streams: ui.Streams{Stdout: ui.NewPrinter(w), Stderr: ui.NewPrinter(w)}}, grep: re, lines: map[string][]byte{}, progress: &progress{}}
		for rest := []byte(text); len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			if err := l.write(api.EventStdout, rest[:n]); err != nil {
				t.Error(err)
			}
			rest = rest[n:]
		}
		if err := l.flush(); err != nil {
			t.Error(err)
		}
		w.Close()
		if b := <-got; !bytes.Equal(b, want) {
			t.Errorf("%q, want %q", b, want)
		}
	})
}

func TestProgress(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	begin := time.Now().Add(-10 * time.Second)
	g := &progress{out: &ui.Printer{File: w}, total: 40 << 20, begin: begin, next: time.Now().Add(time.Hour)}
	g.add(10 << 20) // too soon
	g.next = begin
	g.add(10 << 20)
	g.add(1) // too soon after that
	g.clear()
	g.clear()
	(&progress{}).add(1) // without a terminal
	w.Close()
	b, _ := io.ReadAll(r)
	if text := string(b); text != "\r\x1b[K20 MiB of 40 MiB, 50%, 2 MiB/s\r\x1b[K" {
		t.Errorf("%q", text)
	}
}
