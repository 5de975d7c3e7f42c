package egress

import (
	"bytes"
	"io"
	"net/netip"
	"strings"
	"testing"
)

// FuzzAddr compares the addresses with those of net/netip.
func FuzzAddr(f *testing.F) {
	for _, s := range []string{"1.2.3.4", "::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1::", "01.2.3.4", "1:2:3:4:5:6:7::", "fe80::1%a", "0:0:1::", "1:0:0:2:0:0:0:3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddr(s)
		want, wantErr := netip.ParseAddr(s)
		if (err == nil) != (wantErr == nil && want.Zone() == "") {
			t.Fatalf("%q: %v, %v", s, err, wantErr)
		}
		if err != nil {
			return
		}
		if want.As16() != [16]byte(a) || a.String() != want.Unmap().String() {
			t.Fatalf("%q: %s, %s", s, a, want)
		}
		if _, what := specialBlock(a); what == "" && (want.IsPrivate() || want.IsLoopback() || want.IsMulticast() || want.IsLinkLocalUnicast() || want.IsUnspecified()) {
			t.Fatalf("%s is public", a)
		}
	})
}

// FuzzRule checks that a rule that was read lists the host that it names.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"github.com:443", "*.example.org", "127.0.0.1:3000", "[::1]:80-90", "10.0.0.0/8", "*", "localhost", "bücher.example:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		rules, err := ParseRules([]string{s})
		if err != nil {
			return
		}
		p := New(Config{Rules: rules, Lookup: func(string) ([]Addr, error) { return nil, errNotFound }})
		r := rules[0]
		host := strings.TrimPrefix(r.name, ".")
		switch {
		case r.name == ".":
			host = "any.example"
		case r.name == "":
			if _, what := specialBlock(r.block.addr); what != "" && r.block.bits != 128 {
				return
			}
			host = r.block.addr.String()
		case r.name[0] == '.':
			host = "x" + r.name
			if len(host) > 253 {
				return
			}
		}
		if d, _ := p.decide(host, r.ports[0][0]); !d.Allowed || d.Rule != s {
			t.Fatalf("%q: %+v", s, d)
		}
		if d, _ := p.decide("other.invalid", r.ports[0][1]); d.Allowed && r.name != "." && !strings.HasSuffix(".other.invalid", r.name) && r.name != "other.invalid" {
			t.Fatalf("%q: %+v", s, d)
		}
	})
}

// FuzzRequest checks that no head for a destination has more than one line for each of its fields.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"CONNECT a.example:443 HTTP/1.1\r\n\r\n", "GET http://a.example/ HTTP/1.1\r\nHost: b\r\nProxy-X: y\r\n\r\n",
		"POST http://[::1]:80/?a HTTP/1.0\r\nContent-Length: 5\r\nConnection: x\r\nX: y\r\n\r\nhello",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := &reader{r: bytes.NewReader(b)}
		head, err := in.head()
		if err != nil {
			return
		}
		q, err := parseRequest(head)
		if err != nil {
			return
		}
		if q.host == "" || q.port < 1 || q.port > 65535 {
			t.Fatalf("%+v", q)
		}
		if q.tunnel {
			return
		}
		if _, fields, err := parseHead(q.head); err != nil {
			t.Fatalf("%q", q.head)
		} else {
			hosts := 0
			for _, f := range fields {
				if strings.EqualFold(f.name, "host") {
					hosts++
				}
				if strings.HasPrefix(strings.ToLower(f.name), "proxy-") {
					t.Fatalf("%q", q.head)
				}
			}
			if hosts != 1 {
				t.Fatalf("%q", q.head)
			}
		}
	})
}

// FuzzSOCKS checks that every request ends with a destination or an error, and is answered once.
func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50rest"))
	f.Add([]byte("\x05\x02\x00\x02\x05\x01\x00\x03\x09a.example\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x04" + strings.Repeat("\x00", 18)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		in := &reader{r: io.MultiReader(bytes.NewReader(b))}
		host, port, err := readSOCKS(in, &out)
		if err == nil && (port < 0 || port > 65535 || len(host) > 255 || out.String() != "\x05\x00") || out.Len() > 12 {
			t.Fatalf("%q %d %q", host, port, out.String())
		}
	})
}

// FuzzAnswer checks that every answer of a DNS server is read without harm.
func FuzzAnswer(f *testing.F) {
	query := newQuery(7, "a.example", typeA)
	answer := append([]byte{0, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, query[12:]...)
	f.Add(append(answer, record(typeA, 1, 2, 3, 4)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, cut, err := parseAnswer(query, b)
		if len(list) > maxAddresses || err == nil && !cut && len(list) == 0 {
			t.Fatal(list, cut, err)
		}
	})
}
