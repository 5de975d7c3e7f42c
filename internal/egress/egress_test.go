package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a proxy with its decisions.
type world struct {
	*Proxy
	port    int
	mu      sync.Mutex
	decided []Decision // guarded by mu
}

func newWorld(t *testing.T, c Config, rules ...string) *world {
	t.Helper()
	var err error
	if c.Rules, err = ParseRules(rules); err != nil {
		t.Fatal(err)
	}
	w := &world{}
	c.Report = func(d Decision) {
		w.mu.Lock()
		w.decided = append(w.decided, d)
		w.mu.Unlock()
	}
	if c.Lookup == nil {
		c.Lookup = func(name string) ([]Addr, error) { return nil, errNotFound }
	}
	w.Proxy = New(c)
	l, port, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	w.port = port
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Serve(l) }()
	t.Cleanup(func() { w.Close(); <-done })
	return w
}

func (w *world) decisions() []Decision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Decision(nil), w.decided...)
}

// dial connects to the proxy.
func (w *world) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// site is a server of HTTP that keeps the head of the last request.
func site(t *testing.T) (port int, last func() http.Header) {
	t.Helper()
	var mu sync.Mutex
	var header http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		header = r.Header.Clone()
		header.Set("X-Host", r.Host)
		mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d", r.Method, r.URL, len(body))
	}))
	t.Cleanup(s.Close)
	_, text, _ := net.SplitHostPort(s.Listener.Addr().String())
	port, _ = strconv.Atoi(text)
	return port, func() http.Header { mu.Lock(); defer mu.Unlock(); return header }
}

func curl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("curl", append([]string{"-sS", "--max-time", "120", "--noproxy", ""}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// curl reaches what is listed, by every protocol of the proxy, and nothing else.
func TestCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	port, last := site(t)
	lookup := func(name string) ([]Addr, error) { return []Addr{loopback4}, nil }
	w := newWorld(t, Config{Lookup: lookup}, "site.example:"+strconv.Itoa(port), "127.0.0.1:"+strconv.Itoa(port))
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("127.0.0.1:%d", w.port)
	url := fmt.Sprintf("http://site.example:%d/a?b#c", port)
	for _, way := range [][]string{{"-x", "http://u:secret@" + at}, {"-p", "-x", "http://" + at}, {"--socks5-hostname", at}} {
		if out, err := curl(t, append(way, url)...); err != nil || out != "GET /a?b 0" {
			t.Errorf("%v: %q, %v", way, out, err)
		}
		if out, err := curl(t, append(way, "--data-binary", "@"+big, url)...); err != nil || out != "POST /a?b 1048576" {
			t.Errorf("%v: %q, %v", way, out, err)
		}
		if out, err := curl(t, append(way, "-H", "Transfer-Encoding: chunked", "--data-binary", "@"+big, url)...); err != nil || out != "POST /a?b 1048576" {
			t.Errorf("%v, in chunks: %q, %v", way, out, err)
		}
		h := last()
		if h.Get("X-Host") != "site.example:"+strconv.Itoa(port) {
			t.Errorf("%v: %v", way, h)
		}
		for name := range h {
			if strings.HasPrefix(name, "Proxy") {
				t.Errorf("%v: the destination got %s", way, name)
			}
		}
		if out, err := curl(t, append(way, "-f", fmt.Sprintf("http://other.example:%d/", port))...); err == nil {
			t.Errorf("%v: other.example answered %q", way, out)
		}
		if out, err := curl(t, append(way, "-f", fmt.Sprintf("http://[::ffff:127.0.0.2]:%d/", port))...); err == nil {
			t.Errorf("%v: a mapped address answered %q", way, out)
		}
	}
	for _, d := range w.decisions() {
		if listed := d.Host == "site.example"; d.Allowed != listed || listed != (d.Rule != "") || listed == (d.Reason != "") {
			t.Errorf("%+v", d)
		}
	}
	if n := len(w.decisions()); n != 15 {
		t.Errorf("%d decisions", n)
	}
}

// The address that was checked is the one that is dialled: a name whose address changes is asked for once.
func TestRebinding(t *testing.T) {
	port, _ := site(t)
	var asked atomic.Int64
	other, _ := ParseAddr("127.0.0.2")
	lookup := func(name string) ([]Addr, error) {
		if asked.Add(1) > 1 {
			return []Addr{other}, nil
		}
		return []Addr{other, loopback4}, nil
	}
	w := newWorld(t, Config{Lookup: lookup}, "*.example:*", "127.0.0.1:"+strconv.Itoa(port))
	get := func() string {
		c := w.dial(t)
		fmt.Fprintf(c, "GET http://a.example:%d/ HTTP/1.1\r\n\r\n", port)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.Status
	}
	if s := get(); s != "200 OK" || asked.Load() != 1 {
		t.Errorf("%s, %d questions", s, asked.Load())
	}
	if s := get(); s != "403 Forbidden" {
		t.Errorf("an address that is not listed: %s", s)
	}
	if d := w.decisions()[1]; d.Allowed || d.Reason != "127.0.0.2 is a loopback address, which a rule must name" {
		t.Errorf("%+v", d)
	}
}

// Names that no rule lists are not resolved.
func TestNoLookup(t *testing.T) {
	w := newWorld(t, Config{Lookup: func(string) ([]Addr, error) { t.Error("resolved"); return nil, errNotFound }}, "a.example:443", "10.0.0.0/8", "*.b.example:1-5")
	for _, host := range []string{"b.example", "secret.evil.example", "a.example", "10.0.0.1.nip.example", "localhost", "x.b.example"} {
		if d, _ := w.decide(host, 80); d.Allowed {
			t.Errorf("%+v", d)
		}
	}
}

func TestDecide(t *testing.T) {
	addrs := map[string][]string{
		"public.example": {"93.184.216.34"}, "private.example": {"10.1.2.3"}, "mixed.example": {"192.168.0.1", "93.184.216.34"},
		"meta.example": {"169.254.169.254"}, "mapped.example": {"::ffff:10.1.2.3"}, "nat64.example": {"64:ff9b::a01:203"},
		"listed.example": {"172.16.5.5"}, "own.example": {"93.184.216.90"}, "xn--bcher-kva.example": {"93.184.216.34"}, "a.b.sub.example": {"2606:2800::1"},
	}
	p := New(Config{Lookup: func(name string) (list []Addr, err error) {
		for _, s := range addrs[name] {
			a, err := ParseAddr(s)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, a)
		}
		return list, nil
	}, Own: func(a Addr) bool { return strings.HasPrefix(a.String(), "93.184.216.9") }})
	for _, tt := range []struct {
		rules, host string
		port        int
		want        bool
	}{
		{"public.example", "public.example", 22, false},
		{"public.example", "public.example", 443, true},
		{"public.example:*", "public.example", 22, true},
		{"public.example:443", "PUBLIC.Example.", 443, true},
		{"Public.Example.:443", "public.example", 443, true},
		{"public.example:443", "public.example", 80, false},
		{"public.example:80-443", "public.example", 81, true},
		{"public.example", "notpublic.example", 80, false},
		{"*.example", "public.example", 80, true},
		{"*.public.example", "public.example", 80, false},
		{"*.sub.example", "a.b.sub.example", 80, true},
		{"*", "public.example", 80, true},
		{"*:443", "93.184.216.34", 443, true},
		{"*:443", "93.184.216.34", 80, false},
		{"*", "private.example", 80, false},
		{"*", "127.0.0.1", 80, false},
		{"*", "::1", 80, false},
		{"bücher.example", "xn--bcher-kva.example", 80, true},
		{"xn--bcher-kva.example", "BÜCHER.example", 80, true},
		{"*.example", "private.example", 80, false},
		{"*.example", "meta.example", 80, false},
		{"*.example", "mapped.example", 80, false},
		{"*.example", "nat64.example", 80, false},
		{"*.example", "mixed.example", 80, true},
		{"*.example", "missing.example", 80, true}, // allowed, without an address
		{"listed.example 172.16.0.0/12:80", "listed.example", 80, true},
		{"listed.example 172.16.0.0/12:80", "listed.example", 81, false},
		{"172.16.0.0/12", "listed.example", 80, false}, // the name is not listed
		{"public.example", "93.184.216.34", 80, false}, // the address is not
		{"93.184.216.34", "93.184.216.34", 80, true},
		{"93.184.0.0/16", "93.184.216.34", 80, true},
		{"0.0.0.0/0", "93.184.216.34", 80, true},
		{"0.0.0.0/0 ::/0", "10.0.0.1", 80, false},
		{"0.0.0.0/0 ::/0", "169.254.169.254", 80, false},
		{"0.0.0.0/0", "2606:2800::1", 80, false},
		{"::/0", "2606:2800::1", 80, true},
		{"::/0", "93.184.216.34", 80, false},
		{"10.0.0.0/8", "10.0.0.1", 80, true},
		{"10.0.0.0/8", "::ffff:10.0.0.1", 80, true}, // the same address
		{"10.0.0.0/8", "::10.0.0.1", 80, false},
		{"10.0.0.0/8", "2002:a00:1::", 80, false},
		{"169.254.169.254:80", "169.254.169.254", 80, true},
		{"[fd00::1]:80", "fd00::1", 80, true},
		{"[fd00::/8]:80", "fd00::1", 80, true},
		{"fd00::/8", "fd00::1", 80, true},
		{"::1", "::1", 80, true},
		{"127.0.0.1:3000", "127.0.0.1", 3000, true},
		{"127.0.0.1:3000", "127.0.0.1", 3001, false},
		{"127.0.0.1:3000", "localhost", 3000, true},
		{"localhost:3000", "localhost", 3000, true},
		{"localhost:3000", "127.0.0.1", 3000, true},
		{"localhost:3000", "::1", 3000, true},
		{"*", "own.example", 80, false},
		{"*", "93.184.216.90", 80, false},
		{"93.184.0.0/16 own.example", "own.example", 80, false},
		{"93.184.216.90 own.example", "own.example", 80, true},
		{"93.184.216.90", "93.184.216.90", 80, true},
		{"127.0.0.1", "127.1", 80, false},
		{"127.0.0.1", "2130706433", 80, false},
		{"127.0.0.1", "0x7f.0.0.1", 80, false},
		{"127.0.0.1", "0x7f000001", 80, false},
		{"127.0.0.1", "0177.0.0.1", 80, false},
		{"127.0.0.1", "127.0.0.1.", 80, false},
		{"*", "fe80::1%eth0", 80, false},
		{"*", "a b", 80, false},
		{"*", "", 80, false},
		{"*", "a..example", 80, false},
		{"*", "public.example", 0, false},
	} {
		var err error
		if p.rules, err = ParseRules(strings.Fields(tt.rules)); err != nil {
			t.Errorf("%s: %v", tt.rules, err)
			continue
		}
		d, list := p.decide(tt.host, tt.port)
		if d.Allowed != tt.want || !d.Allowed && (d.Reason == "" || list != nil) || d.Allowed && d.Rule == "" {
			t.Errorf("%s: %s port %d: %+v", tt.rules, tt.host, tt.port, d)
		}
		for _, a := range list {
			if tt.host == "mixed.example" && a.String() != "93.184.216.34" {
				t.Errorf("mixed: %s", a)
			}
		}
	}
}

func TestBadRules(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "no host",
		":443":                  "no host",
		"example.org:":          "without a port",
		"example.org:0":         "not a port",
		"example.org:70000":     "not a port",
		"example.org:443-80":    "not a port",
		"example.org:https":     "not a port",
		"https://example.org":   "URL",
		"http://example.org:80": "URL",
		"a.*.example":           "first label",
		"*example.org":          "first label",
		"*.":                    "empty label",
		"exa mple.org":          "character",
		"example..org":          "empty label",
		"10.0.0.0/33":           "prefix",
		"10.0.0/8":              "not an IP address",
		"127.1":                 "ends in a number",
		"0x7f000001":            "ends in a number",
		"[example.org]:80":      "brackets",
		"[::1":                  "brackets",
		"[::1]x":                "brackets",
		"::1:80:":               "not an IP address",
		"example.org/path":      "not an IP address",
	} {
		if _, err := ParseRules([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A head that is slow, too large or not HTTP ends the connection; requests for the proxy itself are errors.
func TestBadHeads(t *testing.T) {
	w := newWorld(t, Config{HeadTimeout: 50 * time.Millisecond})
	for _, sent := range []string{"", "GET http://a.example/ HTTP/1.1\r\nA: b", "\x05", "\x05\x01\x00\x05\x01\x00\x03\xff"} {
		c := w.dial(t)
		_, _ = io.WriteString(c, sent)
		if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q: %v", sent, err)
		}
	}
	w = newWorld(t, Config{})
	for want, sent := range map[string]string{
		"HTTP/1.1 431": "GET http://a.example/ HTTP/1.1\r\nA: " + strings.Repeat("a", maxHead) + "\r\n\r\n",
		"HTTP/1.1 400": "GET / HTTP/1.1\r\n\r\n",
		"HTTP/1.1 403": "CONNECT a.example:443 HTTP/1.1\r\n\r\n",
		"\x05\xff":     "\x05\x01\x02",
		"\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00": "\x05\x01\x00\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50",
		"\x05\x00\x05\x08\x00\x01\x00\x00\x00\x00\x00\x00": "\x05\x01\x00\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50",
		"\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00": "\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50",
	} {
		c := w.dial(t)
		_, _ = io.WriteString(c, sent)
		_ = c.CloseWrite()
		if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%.40q: %q, %v", sent, got, err)
		}
	}
}

func TestParseRequest(t *testing.T) {
	q, err := parseRequest([]byte("POST http://a.example:8080/x?y HTTP/1.1\r\nHost: b.example\r\nProxy-Authorization: Basic x\r\n" +
		"Connection: Secret-Hop, keep-alive\r\nsecret-hop: 1\r\nContent-Length: 3\r\nTE: trailers\r\nX: y\r\n\r\n"))
	const head = "POST /x?y HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 3\r\nX: y\r\nConnection: close\r\n\r\n"
	if err != nil || string(q.head) != head || q.host != "a.example" || q.port != 8080 || q.length != 3 {
		t.Errorf("%+v %q %v", q, q.head, err)
	}
	for _, bad := range []string{
		"GET http://a.example/ HTTP/1.1\nHost: a\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\n folded: a\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nA : a\r\n\r\n",
		"GET http://a.example/ HTTP/2\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
		"GET http://u:p@a.example/ HTTP/1.1\r\n\r\n",
		"GET https://a.example/ HTTP/1.1\r\n\r\n",
		"GET http:///x HTTP/1.1\r\n\r\n",
		"CONNECT a.example HTTP/1.1\r\n\r\n",
		"CONNECT a.example:99999 HTTP/1.1\r\n\r\n",
		"\r\n\r\n",
	} {
		if q, err := parseRequest([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, q)
		}
	}
}

// echo is a server that answers when the program has ended its side.
func echo(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				all, _ := io.ReadAll(c)
				_, _ = c.Write(all)
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().(*net.TCPAddr).Port
}

// The end of one side is passed on, and the other side can still send.
func TestHalfClose(t *testing.T) {
	port := echo(t)
	w := newWorld(t, Config{}, "127.0.0.1:*")
	c := w.dial(t)
	fmt.Fprintf(c, "CONNECT localhost:%d HTTP/1.1\r\n\r\nearly ", port)
	_, _ = io.WriteString(c, "late")
	_ = c.CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil || !strings.HasSuffix(string(got), "\r\n\r\nearly late") {
		t.Errorf("%q, %v", got, err)
	}
}

// Close ends the connections, also those that are idle.
func TestClose(t *testing.T) {
	port := echo(t)
	w := newWorld(t, Config{}, "127.0.0.1:*")
	c := w.dial(t)
	fmt.Fprintf(c, "CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n", port)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatal(line, err)
	}
	w.Close()
	if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// The kernel knows the addresses of this machine.
func TestOwn(t *testing.T) {
	for _, text := range []string{"127.0.0.1"} {
		if a, _ := ParseAddr(text); !isOwn(a) {
			t.Errorf("%s is not one of this machine", text)
		}
	}
	for _, text := range []string{"93.184.216.34", "2606:2800::1", "10.255.255.1"} {
		if a, _ := ParseAddr(text); isOwn(a) {
			t.Errorf("%s is one of this machine", text)
		}
	}
}

// A door that is closed gives its slot back: others of the same proxy go on.
func TestDoors(t *testing.T) {
	w := newWorld(t, Config{})
	for range 2 {
		l, _, err := Listen()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- w.Serve(l) }()
		testkit.Eventually(t, "both doors wait", func() bool { return len(w.slots) == 2 })
		l.Close()
		<-done
	}
	if n := len(w.slots); n != 1 {
		t.Errorf("%d slots are taken", n)
	}
}

// Thousands of short connections leave nothing behind, and more connections than allowed wait.
func TestFlood(t *testing.T) {
	port := echo(t)
	w := newWorld(t, Config{}, "127.0.0.1:*")
	before := descriptors(t)
	var idle []net.Conn
	for range MaxConns + 20 {
		idle = append(idle, w.dial(t))
	}
	testkit.Eventually(t, "the slots are taken", func() bool { return len(w.slots) == MaxConns })
	w.mu.Lock()
	decided := len(w.decided)
	w.mu.Unlock()
	if decided != 0 {
		t.Errorf("%d decisions", decided)
	}
	for _, c := range idle {
		c.Close()
	}
	var running sync.WaitGroup
	for range 16 {
		running.Go(func() {
			for range 125 {
				c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port)))
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(c, "CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\nx", port)
				_ = c.(*net.TCPConn).CloseWrite()
				if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(got), "\r\n\r\nx") {
					t.Errorf("%q, %v", got, err)
				}
				c.Close()
			}
		})
	}
	running.Wait()
	testkit.Eventually(t, "the descriptors are closed", func() bool { return descriptors(t) <= before })
	if n := len(w.decisions()); n != 2000 {
		t.Errorf("%d decisions", n)
	}
}
