package grpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestUpgradeKeepsTheAddress: the next program listens at the same port, and who follows
// a command goes on.
func TestUpgradeKeepsTheAddress(t *testing.T) {
	f := startFar(t, "--log-level", "info")
	r, seen := f.printer(t, client.RemoteOptions{})
	f.print(t, r, "one")
	expect(t, r, 0, "one")
	before := f.GRPC(t)
	for i := range int64(3) {
		f.Signal(t, syscall.SIGUSR2)
		seen.await(client.StateReconnecting)
		if err := r.Write(timeout(t), []byte("two")); err != nil {
			t.Fatal(err)
		}
		expect(t, r, 3+3*i, "two")
		testkit.Eventually(t, "the next daemon has started", func() bool { return strings.Count(f.Stderr(), `"msg":"daemon started"`) == int(i)+2 })
	}
	if now := f.GRPC(t); now != before {
		t.Errorf("%s became %s", before, now)
	}
	if _, err := f.client.ExecInfo(timeout(t), api.ExecInfoParams{ExecID: second(r.IDs())}); err != nil {
		t.Error(err)
	}
}

func second(_, b string) string { return b }

// TestRefusesToStart where callers could not be told from each other.
func TestRefusesToStart(t *testing.T) {
	dir := testkit.Dir(t)
	is := newIssuer(t, "ours")
	server := is.issue("server", time.Hour)
	d := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--grpc", "0.0.0.0:0"}, "grpc 0.0.0.0:0: other machines can reach this address; give tls_cert and tls_key"},
		{[]string{"--grpc", "0.0.0.0:0", "--http-insecure"}, "other machines can reach this address"},
		{[]string{"--grpc", strings.TrimPrefix(d.GRPC(t), "grpc://")}, "address already in use"},
		{[]string{"--grpc", "127.0.0.1:0", "--grpc-client-ca", is.file}, "tls_cert: is required, because grpc_client_ca is set (flag --grpc-client-ca)"},
		{[]string{"--grpc", "127.0.0.1:0", "--tls-cert", server.cert, "--tls-key", server.key, "--grpc-client-ca", server.key}, "grpc_client_ca: "},
		{[]string{"--grpc", "127.0.0.1:0", "--tls-cert", server.cert, "--tls-key", server.key, "--grpc-client-ca", dir + "/none"}, "no such file"},
		{[]string{"--grpc", "localhost"}, "must be a host and a port"},
	} {
		cmd := exec.CommandContext(timeout(t), trltest.Binary(t), append([]string{"serve", "--socket", dir + "/s/sock", "--state-dir", dir + "/state"}, c.args...)...)
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

// TestCallerWhoLeaves takes its command along, and its ephemeral sessions; on this
// transport too.
func TestCallerWhoLeaves(t *testing.T) {
	f := startFar(t, "--kill-grace-s", "1")
	session := f.session(t, api.SessionCreateParams{}).SessionID
	own, err := f.client.SessionCreate(timeout(t), api.SessionCreateParams{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.client.ExecRun(timeout(t), api.ExecParams{SessionID: own.SessionID, Command: "echo hi"})
	if err != nil || r.Stdout != "hi\n" {
		t.Errorf("%+v, %v", r, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := f.client.ExecRun(timeout(t), api.ExecParams{SessionID: session, Command: "sleep 1000"})
		done <- err
	}()
	state := func(id string) api.SessionState {
		info, err := f.near.SessionInfo(timeout(t), api.SessionInfoParams{SessionID: id})
		if err != nil {
			t.Fatal(err)
		}
		return info.State
	}
	testkit.Eventually(t, "the session is running", func() bool { return state(session) == api.SessionRunning })
	f.client.Close()
	if err := <-done; !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Error(err)
	}
	testkit.Eventually(t, "the session is idle and the ephemeral one has ended", func() bool { return state(session) == api.SessionIdle && state(own.SessionID) == api.SessionTerminated })
}

// TestLargeRequests: a refused request does not affect the others on the connection.
func TestLargeRequests(t *testing.T) {
	f := startFar(t, "--max-request-bytes", "4MiB")
	session := f.session(t, api.SessionCreateParams{}).SessionID
	waiting := make(chan error, 1)
	go func() {
		_, err := f.client.ExecRun(timeout(t), api.ExecParams{SessionID: session, Command: "sleep 1"})
		waiting <- err
	}()
	other := f.session(t, api.SessionCreateParams{}).SessionID
	for _, size := range []int{100, 1 << 20, 3 << 20} {
		text := strings.Repeat("é", size/2)
		r, err := f.client.ExecRun(timeout(t), api.ExecParams{SessionID: other, Command: "cat", Stdin: &text})
		if err != nil || r.StdoutBytes != int64(len(text)) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	for _, size := range []int{5 << 20, 20 << 20} {
		text := strings.Repeat("x", size)
		_, err := f.client.ExecRun(timeout(t), api.ExecParams{SessionID: other, Command: "cat", Stdin: &text})
		if e := api.AsError(err); e == nil || e.Code != api.CodeRequestTooLarge {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if n := f.proxy.Connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestNothingIsLeft: of connections that come and go in every way, the daemon keeps
// neither descriptors nor goroutines.
func TestNothingIsLeft(t *testing.T) {
	f := startFar(t)
	f.client.Close() // only the connections of visits are counted
	session := f.session(t, api.SessionCreateParams{}).SessionID
	x, err := f.near.ExecStart(timeout(t), api.ExecParams{SessionID: session, Command: "seq 1 100000; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	address, token := f.GRPC(t), f.Token(t)
	visit := func(i int) {
		c, err := client.DialGRPC(timeout(t), address, client.GRPCOptions{Token: token})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		ctx, cancel := context.WithCancel(timeout(t))
		defer cancel()
		s, err := c.ExecStream(ctx, api.ExecStreamParams{ExecID: x.ExecID})
		if err != nil {
			t.Error(err)
			return
		}
		switch i % 4 {
		case 0:
			_, _ = s.Recv()
			s.Close()
		case 1: // left open
		case 2:
			cancel()
		case 3:
			nc, err := net.Dial("tcp", strings.TrimPrefix(address, "grpc://"))
			if err == nil {
				_, _ = nc.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
				nc.Close()
			}
		}
	}
	settle := func() api.SystemStatsResult {
		t.Helper()
		var s api.SystemStatsResult
		var err error
		testkit.EventuallyNoProblem(t, func() string {
			s, err = f.near.SystemStats(timeout(t), api.SystemStatsParams{})
			if err != nil || s.Connections == 1 { // f.near
				return ""
			}
			return fmt.Sprintf("%d connections are left, want 1", s.Connections)
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for i := range 8 {
		visit(i)
	}
	before := settle()
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			for j := range 20 {
				visit(i + j)
			}
		})
	}
	all.Wait()
	var after api.SystemStatsResult
	// The daemon counts a TCP connection out a moment after its calls.
	testkit.Eventually(t, "the daemon has no more descriptors and goroutines than before", func() bool {
		after = settle()
		return after.OpenFDs <= before.OpenFDs && after.Goroutines <= before.Goroutines+2
	})
	t.Logf("descriptors %d, goroutines %d; before it was %d and %d", after.OpenFDs, after.Goroutines, before.OpenFDs, before.Goroutines)
}

// TestTokenStaysWithTheDaemon: no log has it.
func TestTokenStaysWithTheDaemon(t *testing.T) {
	f := startFar(t, "--log-level", "debug")
	token := f.Token(t)
	_, err := client.DialGRPC(timeout(t), f.GRPC(t), client.GRPCOptions{Token: token + "x"})
	if api.AsError(err).Code != api.CodeAuthFailed || strings.Contains(err.Error(), token) || strings.Contains(f.Stderr(), token) {
		t.Errorf("%v", err)
	}
	if info, err := os.Stat(filepath.Join(f.StateDir, "token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
