package wire_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func stats(t *testing.T, c *client.Client) api.SystemStatsResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.SystemStats(ctx, api.SystemStatsParams{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func dial(t *testing.T, d *trltest.Daemon) *net.UnixConn {
	t.Helper()
	conn, err := net.Dial("unix", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn.(*net.UnixConn)
}

// TestBadInput sends bad input to the real daemon while another client works, and compares the
// memory, descriptors and goroutines of the whole process. internal/server/badinput_test.go tests
// each limit alone, with a fake service.
func TestBadInput(t *testing.T) {
	d := trltest.Start(t)
	good := d.Client(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	session, err := good.SessionCreate(ctx, api.SessionCreateParams{})
	if err != nil {
		t.Fatal(err)
	}
	unharmed := func() {
		t.Helper()
		r, err := good.ExecRun(ctx, api.ExecParams{SessionID: session.SessionID, Command: "echo fine"})
		if err != nil || r.Stdout != "fine\n" {
			t.Fatalf("the other client: %+v, %v", r, err)
		}
	}
	for range 6 { // so that the heap has the size that this takes; the collector lets it grow in steps
		longLine(t, d)
		manyConnections(t, d, unharmed)
	}
	settled(t, good)
	before := stats(t, good)

	for range 3 {
		longLine(t, d)
		unharmed()
		manyConnections(t, d, unharmed)
	}
	garbage(t, d)
	unharmed()

	settled(t, good)
	after := stats(t, good)
	// The race detector takes several bytes for each; one kept line would be far above this.
	if grown := after.MemoryRSSBytes - before.MemoryRSSBytes; grown > 128<<20 {
		t.Errorf("the daemon grew by %d MiB", grown>>20)
	} else {
		t.Logf("the daemon grew by %d MiB", grown>>20)
	}
	if after.OpenFDs > before.OpenFDs || after.Goroutines > before.Goroutines+2 {
		t.Errorf("descriptors %d, goroutines %d; before it was %d and %d", after.OpenFDs, after.Goroutines, before.OpenFDs, before.Goroutines)
	}
}

// settled waits until only this client is connected.
func settled(t *testing.T, c *client.Client) {
	t.Helper()
	testkit.EventuallyNoProblem(t, func() string {
		if n := stats(t, c).Connections; n != 1 {
			return fmt.Sprintf("%d connections are left", n)
		}
		return ""
	})
}

func longLine(t *testing.T, d *trltest.Daemon) {
	t.Helper()
	conn := dial(t, d)
	defer conn.Close()
	piece := strings.Repeat("x", 1<<20)
	for range 64 {
		if _, err := io.WriteString(conn, piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(conn, "\n{\"id\":1,\"method\":\"system.ping\"}\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(conn)
	for _, want := range []string{`{"id":null,"ok":false,"error":{"code":"REQUEST_TOO_LARGE"`, `{"id":1,"ok":true`} {
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

// manyConnections opens 1,000, of which some are silent, some say half a request and
// some ask, and leaves them in different ways.
func manyConnections(t *testing.T, d *trltest.Daemon, unharmed func()) {
	t.Helper()
	conns := make([]*net.UnixConn, 1000)
	for i := range conns {
		conns[i] = dial(t, d)
		switch i % 3 {
		case 1:
			fmt.Fprint(conns[i], `{"id":1,"method":"sys`)
		case 2:
			fmt.Fprint(conns[i], "{\"id\":1,\"method\":\"system.ping\"}\n")
		}
	}
	unharmed()
	for i, conn := range conns {
		if i%3 == 2 {
			if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"id":1,"ok":true`) {
				t.Fatalf("client %d: %q, %v", i, line, err)
			}
		}
		if i%2 == 0 {
			conn.CloseWrite()
		}
		conn.Close()
	}
}

func garbage(t *testing.T, d *trltest.Daemon) {
	t.Helper()
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", strings.Repeat("\x00", 1<<16) + "\n", strings.Repeat("\xff\n", 1000),
		strings.Repeat("[", 1<<16) + "\n", strings.Repeat("\n", 1<<16), strings.Repeat("{}\n", 1000),
	} {
		conn := dial(t, d)
		go func() {
			_, _ = io.WriteString(conn, text)
			conn.CloseWrite()
		}()
		answers, err := io.ReadAll(conn)
		if err != nil {
			t.Errorf("%.10q: %s", text, err)
		}
		for line := range strings.Lines(string(answers)) {
			if !strings.HasPrefix(line, `{"id":null,"ok":false,"error":{"code":"INVALID_PARAMS"`) {
				t.Errorf("%.10q: %s", text, line)
			}
		}
	}
}

// TestDisconnectCancels: a command whose caller went away while it waited is
// cancelled, unless it was detached.
func TestDisconnectCancels(t *testing.T) {
	d := trltest.Start(t)
	good := d.Client(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	session, err := good.SessionCreate(ctx, api.SessionCreateParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, detach := range []bool{false, true} {
		conn := dial(t, d)
		fmt.Fprintf(conn, "{\"id\":1,\"method\":\"exec.run\",\"params\":{\"session_id\":%q,\"command\":\"sleep 1000 & wait\",\"detach\":%v}}\n", session.SessionID, detach)
		running(t, ctx, good, session.SessionID)
		conn.Close()
		if detach {
			settled(t, good)
			_, err := good.ExecRun(ctx, api.ExecParams{SessionID: session.SessionID, Command: "echo next"})
			if !errors.Is(err, api.ErrSessionBusy) {
				t.Errorf("detached: %v", err)
			}
			return
		}
		// It gets its turn only when the other has ended.
		r, err := good.ExecRun(ctx, api.ExecParams{SessionID: session.SessionID, Command: "echo next", Wait: true})
		if err != nil || r.Stdout != "next\n" {
			t.Fatalf("%+v, %v", r, err)
		}
		list, err := good.ExecList(ctx, api.ExecListParams{SessionID: session.SessionID})
		if err != nil || len(list.Execs) != 2 || list.Execs[0].Outcome == nil || !list.Execs[0].Outcome.Cancelled {
			t.Errorf("%+v, %v", list, err)
		}
	}
}

// running waits until a command runs in the session.
func running(t *testing.T, ctx context.Context, c *client.Client, session string) {
	t.Helper()
	for {
		info, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: session})
		if err != nil {
			t.Fatal(err)
		}
		if info.State == api.SessionRunning && len(info.Processes) > 0 {
			return
		}
	}
}
