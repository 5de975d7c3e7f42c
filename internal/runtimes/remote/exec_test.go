package remote

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/link"
)

func TestSkipNoise(t *testing.T) {
	preamble := link.Preamble("NONCE")
	for _, c := range []struct {
		in, rest string
		found    bool
		fails    bool
	}{
		{preamble + "rest", "rest", true, false},
		{"motd\nmore" + preamble + "\x00rest", "\x00rest", true, false},
		{"\x00trl-link OTHER\n" + preamble, "", true, false},
		{"", "", false, false},
		{"sh: not found\n", "", false, false},
		{strings.TrimSuffix(preamble, "\n"), "", false, false},
		{strings.Repeat("x", 2*maxNoise) + preamble, "", false, true},
		{strings.Repeat("line\n", maxNoise) + preamble + "rest", "rest", true, false},
	} {
		in := bufio.NewReaderSize(strings.NewReader(c.in), maxNoise)
		found, err := skipNoise(in, preamble)
		if found != c.found || (err != nil) != c.fails {
			t.Errorf("%.40q: %v, %v", c.in, found, err)
		}
		if rest, _ := io.ReadAll(in); found && string(rest) != c.rest {
			t.Errorf("%.40q: rest %q, want %q", c.in, rest, c.rest)
		}
	}
}

func FuzzSkipNoise(f *testing.F) {
	f.Add([]byte("Welcome\n"), []byte("\x00\x01"))
	f.Add([]byte("\x00trl-link "), []byte("x\n"))
	f.Fuzz(func(t *testing.T, noise, rest []byte) {
		preamble := link.Preamble("NONCE")
		if bytes.Contains(noise, []byte("NONCE")) || len(noise) > maxNoise/2 {
			return // no place can know the nonce
		}
		in := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(noise), strings.NewReader(preamble), bytes.NewReader(rest)), maxNoise)
		found, err := skipNoise(in, preamble)
		if got, _ := io.ReadAll(in); !found || err != nil || !bytes.Equal(got, rest) {
			t.Errorf("%v, %v, rest %q, want %q", found, err, got, rest)
		}
	})
}

func FuzzDecodeLast(f *testing.F) {
	f.Add([]byte("noise\n{"), "/run/x")
	f.Add([]byte(`{"dir":"no"}`), "")
	f.Fuzz(func(t *testing.T, noise []byte, dir string) {
		var report Report
		decodeLast(noise, &report) // must not fail in another way
		if bytes.Count(noise, []byte("{")) > maxBraces/2 || bytes.ContainsAny([]byte(dir), "\"\\") || !isPlain(dir) {
			return
		}
		report = Report{}
		if !decodeLast([]byte(string(noise)+"\n"+`{"dir":"`+dir+`","pid":7}`+"\n"), &report) || report.Dir != dir || report.PID != 7 {
			t.Errorf("%+v, want %q", report, dir)
		}
	})
}

func isPlain(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789/-_.") == ""
}

func TestLastLine(t *testing.T) {
	for in, want := range map[string]string{
		"": "other", "\n \n": "other", "trl-runner: its process no longer exists\n": "its process no longer exists", "motd\ntrl-runner: a\nb \n": "b", "\xff": "?",
	} {
		if got := lastLine(in, "other"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
