package security_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// attemptsAt is the variable by which TestNetworkAttempts learns what it shall try to reach.
const attemptsAt = "TRL_TEST_ATTEMPTS"

// TestNetworkAttempts is the program of a session: it tries to reach a listener of the machine past the
// proxy, and prints what happened. In a session it prints one line for each way.
func TestNetworkAttempts(t *testing.T) {
	ports := strings.Fields(os.Getenv(attemptsAt))
	if len(ports) != 3 {
		t.Skip("is a program for TestNetworkAllow")
	}
	tcp, udp, abstract := ports[0], ports[1], ports[2]
	dial := func(network, address string) error {
		c, err := net.DialTimeout(network, address, 10*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err = c.Write([]byte("x")); err == nil && network == "udp" {
			_, err = c.Read(make([]byte, 1))
		}
		return err
	}
	socket := func(family, kind, protocol int) error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	mapped := func() error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		port, _ := strconv.Atoi(tcp)
		return unix.Connect(fd, &unix.SockaddrInet6{Port: port, Addr: [16]byte{10: 0xff, 0xff, 127, 0, 0, 1}})
	}
	multipath := func() error {
		d := net.Dialer{Timeout: 10 * time.Second}
		d.SetMultipathTCP(true)
		c, err := d.Dial("tcp", "127.0.0.1:"+tcp)
		if err == nil {
			c.Close()
		}
		return err
	}
	setns := func() error {
		f, err := os.Open("/proc/1/ns/net")
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
	}
	for _, a := range []struct {
		name string
		err  error
	}{
		{"tcp", dial("tcp", "127.0.0.1:"+tcp)},
		{"mapped", mapped()},
		{"multipath", multipath()},
		{"udp", dial("udp", "127.0.0.1:"+udp)},
		{"abstract", dial("unix", "@"+abstract)},
		{"public", dial("udp", "192.0.2.1:53")},
		{"raw", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{"packet", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{"vsock", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{"netfilter", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)},
		{"setns", setns()},
		{"unshare", syscall.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNET)},
	} {
		verdict := "open"
		if a.err != nil {
			verdict = "refused: " + a.err.Error()
		}
		fmt.Printf("%s %s\n", a.name, verdict)
	}
}

// A session whose network is allow reaches the listed destinations through its proxy, also from its
// argv commands and after a restart of the daemon, and nothing else in any way. Each decision
// is an event.
func TestNetworkAllow(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer site.Close()
	listed := strings.TrimPrefix(site.URL, "http://")
	_, tcp, _ := net.SplitHostPort(listed)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	go func() {
		for b := make([]byte, 10); ; {
			if _, from, err := udp.ReadFrom(b); err != nil {
				return
			} else if _, err = udp.WriteTo(b[:1], from); err != nil {
				return
			}
		}
	}()
	abstract := "trl-test-" + tcp
	unixListener, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer unixListener.Close()
	_, udpPort, _ := net.SplitHostPort(udp.LocalAddr().String())

	daemon := trltest.Start(t)
	service := daemon.Client(t)
	ctx := context.Background()
	create := func(p api.SessionCreateParams) string {
		t.Helper()
		p.Env = map[string]string{attemptsAt: tcp + " " + udpPort + " " + abstract}
		s, err := service.SessionCreate(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		return s.SessionID
	}
	open := create(api.SessionCreateParams{})
	bound := create(api.SessionCreateParams{Isolation: &api.Isolation{Network: api.NetworkAllow, Allow: []string{listed}}})
	run := func(session string, p api.ExecParams) string {
		t.Helper()
		p.SessionID = session
		r, err := service.ExecRun(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		return r.Stdout + r.Stderr
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	attempts := api.ExecParams{Argv: []string{self, "-test.run=^TestNetworkAttempts$"}}
	free := run(open, attempts)
	for _, name := range []string{"tcp", "mapped", "multipath", "udp", "abstract"} {
		if !strings.Contains(free, name+" open\n") {
			t.Errorf("%s is refused without isolation, so the test proves nothing:\n%s", name, free)
		}
	}
	text := run(bound, attempts)
	lines := 0
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if strings.HasSuffix(s.Text(), " open") {
			t.Errorf("escaped: %s", s.Text())
		}
		if strings.Contains(s.Text(), " refused: ") {
			lines++
		}
	}
	if lines != 12 {
		t.Errorf("%d attempts:\n%s", lines, text)
	}

	get := func(url string) string { return "curl -sS --max-time 100 " + url }
	through := func() {
		t.Helper()
		for _, p := range []api.ExecParams{
			{Command: get(site.URL)}, {Command: get("-p " + site.URL)}, {Argv: []string{"curl", "-sS", site.URL}},
			{Command: get("--socks5-hostname 127.0.0.1:3128 --noproxy '' " + strings.Replace(site.URL, "127.0.0.1", "localhost", 1))},
		} {
			if out := run(bound, p); out != "hello" {
				t.Errorf("%s%v: %q", p.Command, p.Argv, out)
			}
		}
		for url, why := range map[string]string{
			"http://unlisted.example/": "no rule allows it", "http://127.0.0.1:1/": "loopback address",
			"http://169.254.169.254/": "link-local address",
		} {
			if out := run(bound, api.ExecParams{Command: get(url)}); !strings.Contains(out, why) {
				t.Errorf("%s: %q", url, out)
			}
		}
	}
	// All of them are published before the daemon is killed, which would lose those on their way.
	published := func(after int64) {
		t.Helper()
		testkit.Eventually(t, "each decision is an event", func() bool {
			allowed, refused := networkEvents(t, service, bound, after)
			return allowed == 4 && refused == 3
		})
	}
	through()
	published(0)
	service = daemon.Crash(t, nil)
	s, err := service.EventSubscribe(ctx, api.EventSubscribeParams{})
	if err != nil {
		t.Fatal(err)
	}
	again := s.Start().Seq
	s.Close()
	through()
	published(again)

	info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: bound})
	if err != nil {
		t.Fatal(err)
	}
	if c := info.Isolation.Connections; c == nil || c.Allowed != 8 || c.Refused != 6 {
		t.Errorf("session.info: %+v", c)
	}
}

// networkEvents counts the decisions in the kept events of a session, from a number on.
func networkEvents(t *testing.T, service api.Service, session string, after int64) (allowed, refused int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := service.EventSubscribe(ctx, api.EventSubscribeParams{})
	if err != nil {
		t.Fatal(err)
	}
	last := s.Start().Seq
	s.Close()
	if last <= after {
		return 0, 0
	}
	if s, err = service.EventSubscribe(ctx, api.EventSubscribeParams{AfterSeq: &after}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		ev, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if ev.SessionID == session && ev.Network != nil {
			if ev.Type == api.EventNetworkAllowed {
				allowed += ev.Network.Count
			} else {
				refused += ev.Network.Count
			}
		}
		if ev.Seq >= last {
			return allowed, refused
		}
	}
}
