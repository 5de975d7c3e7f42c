package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-0", "bytes=5-", "bytes=-5", "bytes=1-2,3-4", "bytes=9-1", "lines=1-2", "bytes= 1-2 ", "bytes=99999999999999999999-"} {
		f.Add(s, int64(10))
	}
	f.Fuzz(func(t *testing.T, header string, total int64) {
		total = max(total, 0)
		r, ok, cause := parseRange(header)
		if ok && cause != nil {
			t.Fatalf("%q: good and bad", header)
		}
		if !ok {
			return
		}
		first, last, some := r.within(total)
		if some && (first < 0 || first >= last || last > total) {
			t.Fatalf("%q of %d: [%d, %d)", header, total, first, last)
		}
		// What it was understood as must be understood so again.
		again := fmt.Sprintf("bytes=%d-%d", r.first, r.last)
		switch {
		case r.first < 0:
			again = fmt.Sprintf("bytes=-%d", r.last)
		case r.last < 0:
			again = fmt.Sprintf("bytes=%d-", r.first)
		}
		if r2, ok, _ := parseRange(again); !ok || r2 != r {
			t.Fatalf("%q is %+v, %q is %+v", header, r, again, r2)
		}
	})
}

func FuzzTokenFile(f *testing.F) {
	f.Add([]byte("full 0123456789abcdef\nread fedcba9876543210\n"))
	f.Add([]byte("# x\n\n\tabcdefghijklmnop\r\n"))
	f.Add([]byte("read read read"))
	f.Add([]byte("full \x00\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseTokens(text)
		if err != nil {
			if list != nil || len(err.Error()) > 200 {
				t.Fatalf("%d tokens, %s", len(list), err)
			}
			return
		}
		// Every token is a word of the text, and holds for the scope before it.
		tokens := &Tokens{given: list}
		found := 0
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) == 0 || strings.HasPrefix(words[0], "#") {
				continue
			}
			found++
			if scope := tokens.scopeOf(words[len(words)-1]); scope == "" || words[0] == "full" && scope != ScopeFull {
				t.Fatalf("%q has scope %q", line, scope)
			}
		}
		if found != len(list) {
			t.Fatalf("%d tokens in %d lines", len(list), found)
		}
		if tokens.scopeOf("") != "" || tokens.scopeOf("full") != "" {
			t.Fatal("no token is a token")
		}
	})
}

// FuzzHost: nothing but a name of the loopback is taken for one, however it is written.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"localhost", "LOCALHOST.:80", "127.0.0.1:1", "[::1]:5", "[::1", "::1", "a:b:c", "evil.example", "localhost@evil", "[::ffff:127.0.0.1]", "127.1", "", ":80", "[fe80::1%25eth0]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host := hostName(s)
		if strings.ContainsAny(host, "[]@/ ") || host != strings.ToLower(host) {
			t.Fatalf("%q became %q", s, host)
		}
		if again := hostName(host); again != host && !strings.Contains(host, ":") {
			t.Fatalf("%q became %q, that %q", s, host, again)
		}
		if !isLoopback(host) {
			return
		}
		if a, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !a.IsLoopback()) {
			t.Fatalf("%q: %q is no address of the loopback", s, host)
		}
	})
}

// TestComplaints: about one address once a minute, about very many nothing.
func TestComplaints(t *testing.T) {
	var c complaints
	now := time.Unix(1e9, 0)
	if !c.due("a", now) || c.due("a", now.Add(59*time.Second)) || !c.due("b", now) || !c.due("a", now.Add(time.Minute)) {
		t.Error("a minute is not a minute")
	}
	for i := range 2 * maxComplaints {
		c.due(fmt.Sprint(i), now)
	}
	if len(c.last) != maxComplaints || c.due("new", now) {
		t.Errorf("%d addresses are remembered", len(c.last))
	}
	if !c.due("new", now.Add(2*time.Minute)) || len(c.last) != 1 {
		t.Errorf("%d addresses are remembered later", len(c.last))
	}
}

// TestReplyKeepsTheWriter: wrapped as it is, it can still be flushed and taken over.
func TestReplyKeepsTheWriter(t *testing.T) {
	rec := httptest.NewRecorder()
	w := newReply(rec, time.Second)
	var _ http.Flusher = w
	if n, err := w.Write(make([]byte, 3*pieceBytes+1)); n != 3*pieceBytes+1 || err != nil || rec.Body.Len() != n || w.status != 200 {
		t.Errorf("%d, %v, %d", n, err, rec.Body.Len())
	}
	w.Flush()
	if !rec.Flushed || w.Unwrap() != rec {
		t.Error("not flushed")
	}
}
