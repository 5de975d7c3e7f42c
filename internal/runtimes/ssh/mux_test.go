package ssh

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzPacket: no packet of a control socket makes the parser panic, or read beyond it.
func FuzzPacket(f *testing.F) {
	for _, seed := range []string{"", "\x00\x00\x00\x04\x00\x00\x00\x01", "\x00\x00\x00\x10\x80\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04nope", "\xff\xff\xff\xff", "\x00\x00\x00\x04\xff\xff\xff\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		body, err := readPacket(bytes.NewReader(raw))
		if err != nil {
			return
		}
		p := parser{rest: body}
		total := 0
		for !p.bad {
			before := len(p.rest)
			if s := p.string(); len(s) > before {
				t.Fatalf("a string of %d bytes in %d", len(s), before)
			}
			total++
			if total > len(body)/4+1 {
				t.Fatal("the parser does not advance")
			}
		}
	})
}

// FuzzDestination: a destination that is accepted is one word to a shell and no option to ssh.
func FuzzDestination(f *testing.F) {
	for _, seed := range []string{"host", "me@host", "ssh://me@host:22", "[::1]", "-oProxyCommand=x", "a b", "a\x00", `dom\me@host`, "a@-b", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if badDestination(s) == "" && (s == "" || s[0] == '-' || strings.ContainsAny(s, " \t\n\x00'\"`$;&|<>(){}*?")) {
			t.Errorf("%q was accepted", s)
		}
	})
}

// FuzzLastLines: what the other machine says becomes one plain line.
func FuzzLastLines(f *testing.F) {
	for _, seed := range []string{"", "a\nb\nc\nd\n", "@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!  @\n@@@\nadvice\nHost key verification failed.\r\n", "\x1b[31mred\x1b[0m\n", "\xff\n", "\u0085"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := lastLines(s)
		if len(got) > 600 || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q became %q", s, got)
		}
		_ = unavailable("host", "what", s)
	})
}

// TestAdviceForPort: HOST:PORT is a common mistake, and ssh reports only an unknown host.
func TestAdviceForPort(t *testing.T) {
	said := "ssh: Could not resolve hostname box:2222: Name or service not known"
	for destination, port := range map[string]bool{"box:2222": true, "me@box:22": true, "box": false, "ssh://me@box:22": false, "fe80::1": false, "box:http": false} {
		if got := unavailable(destination, "cannot connect", said).Message; strings.Contains(got, "ssh://USER@HOST:PORT") != port {
			t.Errorf("%s: %s", destination, got)
		}
	}
}
