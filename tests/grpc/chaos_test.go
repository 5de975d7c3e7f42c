// Package grpc_test speaks gRPC with the real daemon: through a proxy that breaks
// connections in every way, with certificates of every kind, and as docs/grpc.md says.
package grpc_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits that end at once when all is well.
const patience = 2 * time.Minute

func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// far is a daemon behind a proxy, and a client of it.
type far struct {
	*trltest.Daemon
	proxy  *testkit.Proxy
	client *client.Client
	near   *client.Client // by the socket
}

// steady makes a client that pings often and keeps its connection while the machine is busy.
var steady = client.GRPCOptions{KeepAlive: 200 * time.Millisecond}

// quick makes a client that notices a stall soon. On a busy machine it also takes a slow daemon for a
// stall, so it is for tests in which a loss more does not matter.
var quick = client.GRPCOptions{KeepAlive: steady.KeepAlive, KeepAliveTimeout: 500 * time.Millisecond, ConnectTimeout: 5 * time.Second}

// everyFault disturbs connections in every way a proxy can, within so many bytes.
func everyFault(within int) testkit.Chaos {
	faults := []testkit.Fault{testkit.FaultCut, testkit.FaultReset, testkit.FaultStall, testkit.FaultHalf, testkit.FaultOtherHalf}
	return testkit.Chaos{Faults: faults, Within: within, Delays: true}
}

func startFar(t *testing.T, args ...string) *far {
	t.Helper()
	return startFarWith(t, steady, args...)
}

// startFarWith starts one whose client has these options. Without a token it shows the one that the
// daemon makes.
func startFarWith(t *testing.T, o client.GRPCOptions, args ...string) *far {
	t.Helper()
	f := &far{Daemon: trltest.Start(t, trltest.Args(append([]string{"--grpc", "127.0.0.1:0", "--log-level", "warn"}, args...)...))}
	f.near = f.Client(t)
	f.proxy = testkit.NewProxy(t, strings.TrimPrefix(f.GRPC(t), "grpc://"))
	f.client = f.dial(t, o)
	return f
}

// dial makes a client that connects through the proxy.
func (f *far) dial(t *testing.T, o client.GRPCOptions) *client.Client {
	t.Helper()
	if o.Token == "" {
		o.Token = f.Token(t)
	}
	c, err := client.DialGRPC(timeout(t), "grpc://"+f.proxy.Address(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (f *far) session(t *testing.T, p api.SessionCreateParams) api.SessionInfo {
	t.Helper()
	s, err := f.near.SessionCreate(timeout(t), p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// observer takes down the states of a RemoteSession and checks that each may follow the
// one before.
type observer struct {
	t *testing.T

	mu   sync.Mutex
	list []client.StateChange // guarded by mu
	news chan client.StateChange
}

func observe(t *testing.T) *observer {
	return &observer{t: t, news: make(chan client.StateChange, 10000)}
}

func (o *observer) see(c client.StateChange) {
	o.mu.Lock()
	before := client.State("")
	if n := len(o.list); n > 0 {
		before = o.list[n-1].State
	}
	o.list = append(o.list, c)
	o.mu.Unlock()
	if !before.CanBecome(c.State) {
		o.t.Errorf("%s after %s: %v", c.State, before, c.Cause)
	}
	o.news <- c
}

// await waits for a state and returns it.
func (o *observer) await(want client.State) client.StateChange {
	o.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case c := <-o.news:
			if c.State == want {
				return c
			}
		case <-deadline:
			o.t.Fatalf("never %s", want)
		}
	}
}

func (o *observer) count(s client.State) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.list {
		if c.State == s {
			n++
		}
	}
	return n
}

// forEver is the back-off of tests: it does not pause for long and does not give up.
var forEver = client.Backoff{First: 2 * time.Millisecond, Most: 100 * time.Millisecond, GiveUp: -1}

func (f *far) open(t *testing.T, session string, o client.RemoteOptions) (*client.RemoteSession, *observer) {
	t.Helper()
	seen := observe(t)
	o.OnState = seen.see
	if o.Backoff == (client.Backoff{}) {
		o.Backoff = forEver
	}
	r, err := client.OpenRemote(timeout(t), f.client, session, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, seen
}

// take reads to the exit and checks that the bytes of each stream follow each other.
func take(t *testing.T, r *client.RemoteSession) (out map[string][]byte, exit *api.ExecOutcome) {
	t.Helper()
	out = map[string][]byte{}
	ctx := timeout(t)
	for {
		p, err := r.Recv(ctx)
		if err == io.EOF {
			return out, exit
		}
		if err != nil {
			t.Fatalf("%s; it is %s", err, r.State().State)
		}
		switch p.Type {
		case api.EventExit:
			exit = p.Event.ExecOutcome
		case api.EventStdout, api.EventStderr, api.EventOutput:
			if p.Offset != int64(len(out[p.Type])) {
				t.Fatalf("%s: byte %d after %d", p.Type, p.Offset, len(out[p.Type]))
			}
			out[p.Type] = append(out[p.Type], p.Data...)
		case api.EventGap, api.EventSnapshot:
			t.Fatalf("%+v", p.Event)
		}
	}
}

func sameBytes(t *testing.T, got, want []byte) {
	t.Helper()
	if sha256.Sum256(got) != sha256.Sum256(want) {
		t.Errorf("%d bytes, want %d; they differ at %d", len(got), len(want), differ(got, want))
	}
}

func differ(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

var large = []string{"--output-bytes", "64MiB", "--session-output-bytes", "256MiB", "--max-connections", "8192", "--max-http-connections", "8192"}

// TestChaosOutput: over a bad connection, the bytes are those that the command wrote.
func TestChaosOutput(t *testing.T) {
	t.Parallel()
	f := startFarWith(t, quick, large...)
	file := filepath.Join(t.TempDir(), "out")
	command := fmt.Sprintf("head -c %d /dev/urandom | tee %s; echo end >&2; exit 7", 4<<20, file)
	x, err := f.near.ExecStart(timeout(t), api.ExecParams{SessionID: f.session(t, api.SessionCreateParams{}).SessionID, Command: command})
	if err != nil {
		t.Fatal(err)
	}
	r, seen := f.open(t, x.SessionID, client.RemoteOptions{ExecID: x.ExecID})
	f.proxy.Chaos(everyFault(200_000))
	out, exit := take(t, r)
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, out[api.EventStdout], want)
	if string(out[api.EventStderr]) != "end\n" || exit == nil || exit.ExitCode != 7 {
		t.Errorf("%q, %+v", out[api.EventStderr], exit)
	}
	t.Logf("%d connections, %d times reconnected, %v", f.proxy.Connections(), seen.count(client.StateReconnected), f.proxy.Faults())
	if seen.count(client.StateReconnected) < 5 {
		t.Error("it was hardly disturbed")
	}
	if _, err := r.Recv(timeout(t)); err != io.EOF {
		t.Error(err)
	}
}

// TestChaosStream: the same for the stream of an ordinary Client, which reconnects on its own.
func TestChaosStream(t *testing.T) {
	t.Parallel()
	f := startFarWith(t, quick, large...)
	file := filepath.Join(t.TempDir(), "out")
	f.client.ReconnectFor = patience
	s, err := f.client.ExecStream(timeout(t), api.ExecStreamParams{ExecParams: api.ExecParams{
		SessionID: f.session(t, api.SessionCreateParams{}).SessionID, Command: fmt.Sprintf("head -c %d /dev/urandom | tee %s", 2<<20, file)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f.proxy.Chaos(everyFault(200_000))
	var got []byte
	for {
		ev, err := s.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type != api.EventExit && *ev.Offset != int64(len(got)) {
			t.Fatalf("%s: byte %d after %d", ev.Type, *ev.Offset, len(got))
		}
		got = append(got, api.Data(ev.Data, ev.DataBase64)...)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, got, want)
	t.Logf("%d connections, %v", f.proxy.Connections(), f.proxy.Faults())
}

// TestChaosInput: over a bad connection, each piece is read once, in order.
func TestChaosInput(t *testing.T) {
	t.Parallel()
	f := startFarWith(t, quick, large...)
	file := filepath.Join(t.TempDir(), "in")
	x, err := f.near.ExecStart(timeout(t), api.ExecParams{SessionID: f.session(t, api.SessionCreateParams{}).SessionID, Command: "cat > " + file, StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	r, seen := f.open(t, x.SessionID, client.RemoteOptions{ExecID: x.ExecID})
	f.proxy.Chaos(everyFault(30_000))
	want := pieces(t, r, 200)
	if err := r.CloseInput(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if _, exit := take(t, r); exit == nil || exit.ExitCode != 0 {
		t.Errorf("%+v", exit)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, got, want)
	t.Logf("%d connections, %d times reconnected, %v", f.proxy.Connections(), seen.count(client.StateReconnected), f.proxy.Faults())
}

// pieces writes n pieces of all sizes and returns them.
func pieces(t *testing.T, r *client.RemoteSession, n int) (all []byte) {
	t.Helper()
	ctx := timeout(t)
	for i := range n {
		piece := fmt.Appendf(nil, "%d %s\n", i, strings.Repeat("x\xff", i*i%1000)[i%2:])
		if err := r.Write(ctx, piece); err != nil {
			t.Fatalf("piece %d: %s", i, err)
		}
		all = append(all, piece...)
	}
	return all
}

// TestChaosProgram: a program echoes its input, and each byte returns once.
func TestChaosProgram(t *testing.T) {
	t.Parallel()
	f := startFarWith(t, quick, large...)
	s := f.session(t, api.SessionCreateParams{Kind: api.KindProgram, Command: []string{"cat"}})
	r, seen := f.open(t, s.SessionID, client.RemoteOptions{})
	f.proxy.Chaos(everyFault(60_000))
	written := make(chan []byte, 1)
	go func() {
		defer close(written)
		all := pieces(t, r, 200)
		if err := r.CloseInput(timeout(t)); err != nil {
			t.Error(err)
		}
		written <- all
	}()
	out, exit := take(t, r)
	sameBytes(t, out[api.EventStdout], <-written)
	if exit == nil || exit.ExitCode != 0 {
		t.Errorf("%+v", exit)
	}
	t.Logf("%d connections, %d times reconnected, %v", f.proxy.Connections(), seen.count(client.StateReconnected), f.proxy.Faults())
}

// TestChaosTerminal: a viewer that reconnects with its offset gets exactly the missing output.
func TestChaosTerminal(t *testing.T) {
	t.Parallel()
	f := startFarWith(t, quick, large...)
	s := f.session(t, api.SessionCreateParams{Kind: api.KindTerminal, Command: []string{"sh", "-c", "read go; seq 1 100000; printf 'é€😀'; read end"}})
	from := int64(0)
	r, seen := f.open(t, s.SessionID, client.RemoteOptions{Attach: &api.SessionAttachParams{FromOffset: &from}})
	f.proxy.Chaos(everyFault(60_000))
	if err := r.Write(timeout(t), []byte("\r")); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for !bytes.HasSuffix(got, []byte("é€😀")) {
		p, err := r.Recv(timeout(t))
		if err != nil {
			t.Fatal(err)
		}
		if p.Type == api.EventOutput {
			if p.Offset != int64(len(got)) {
				t.Fatalf("byte %d after %d", p.Offset, len(got))
			}
			got = append(got, p.Data...)
		} else if p.Type != api.EventResize {
			t.Fatalf("%+v", p.Event)
		}
	}
	var want []byte
	limit := int64(api.MaxOutputLimit)
	out, err := f.near.ReadOutput(timeout(t), api.ExecOutputParams{ExecID: s.ExecID, Limit: &limit}, false)
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, out.Bytes...)
	sameBytes(t, got, want)
	if err := r.Write(timeout(t), []byte("\r")); err != nil {
		t.Fatal(err)
	}
	for {
		if p, err := r.Recv(timeout(t)); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			// The session may have ended while no client was connected.
			var failed *client.RemoteError
			if !errors.As(err, &failed) || failed.Reason != client.ReasonSessionGone {
				t.Fatalf("%+v, %v", p, err)
			}
			break
		}
	}
	t.Logf("%d connections, %d times reconnected, %v", f.proxy.Connections(), seen.count(client.StateReconnected), f.proxy.Faults())
}
