package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/rpc"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

// door is a Server that speaks gRPC, with the small service of this package. It is called
// with the generated client, as a stranger would.
type door struct {
	*server.Server
	t       testing.TB
	tokens  string // the path of the file
	grpc    *server.GRPC
	service *service
	log     *testkit.Buffer
	address string
	served  chan error
}

// openDoor starts one that is ready. It is shut down when the test ends, and must have
// neither connections nor requests then.
func openDoor(t testing.TB, cfg server.Config, c server.GRPCConfig) *door {
	t.Helper()
	d := newDoor(t, cfg, c)
	d.grpc.Ready()
	return d
}

func newDoor(t testing.TB, cfg server.Config, c server.GRPCConfig) *door {
	t.Helper()
	d := &door{t: t, service: newService(), log: &testkit.Buffer{}, served: make(chan error, 1)}
	cfg.Service = d.service
	cfg.Logger = slog.New(slog.NewTextHandler(d.log, nil))
	d.Server = server.New(cfg)
	d.tokens = filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(d.tokens, []byte("full "+fullToken+"\nread "+readToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.Tokens, err = server.NewTokens(server.TokensConfig{File: d.tokens, Logger: cfg.Logger, Look: 10 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	d.grpc = d.NewGRPC(c)
	ln, err := server.ListenGRPC("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	d.address = ln.Addr().String()
	go func() { d.served <- d.grpc.Serve(ln) }()
	t.Cleanup(d.close)
	return d
}

func (d *door) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.Shutdown(ctx); err != nil {
		d.t.Errorf("shutdown: %s", err)
	}
	if err := <-d.served; err != nil {
		d.t.Errorf("serve: %s", err)
	}
	d.served <- nil
	if n := d.Connections(); n != 0 {
		d.t.Errorf("%d connections after the end", n)
	}
	if n := d.service.running.Load(); n != 0 {
		d.t.Errorf("%d requests after the end", n)
	}
}

// dial makes a connection, which is closed when the test ends.
func (d *door) dial() *grpc.ClientConn {
	d.t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+d.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { cc.Close() })
	return cc
}

// phone is one gRPC call.
type phone struct {
	grpc.BidiStreamingClient[rpc.Frame, rpc.Frame]
	t      testing.TB
	hangUp context.CancelFunc
}

// call makes a call, with the full token unless the test passes another authorization.
func (d *door) call(cc *grpc.ClientConn, authorization ...string) *phone {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	d.t.Cleanup(cancel)
	if authorization == nil {
		authorization = []string{"Bearer " + fullToken}
	}
	for _, value := range authorization {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", value)
	}
	stream, err := rpc.NewTRLClient(cc).Call(ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	return &phone{stream, d.t, cancel}
}

func (p *phone) say(message string, raw ...string) {
	p.t.Helper()
	f := &rpc.Frame{Message: []byte(message), Raw: map[string][]byte{}}
	for i := 0; i < len(raw); i += 2 {
		f.Raw[raw[i]] = []byte(raw[i+1])
	}
	if err := p.Send(f); err != nil {
		p.t.Fatal(err)
	}
}

func (p *phone) hear() *rpc.Frame {
	p.t.Helper()
	f, err := p.Recv()
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// expect hears a message that begins so.
func (p *phone) expect(begin string) *rpc.Frame {
	p.t.Helper()
	f := p.hear()
	if !strings.HasPrefix(string(f.Message), begin) {
		p.t.Fatalf("heard %s\nwant  %s", f.Message, begin)
	}
	return f
}

// ended hears the end of the call with that status.
func (p *phone) ended(code codes.Code, message string) {
	p.t.Helper()
	f, err := p.Recv()
	if err == nil {
		p.t.Fatalf("heard %s", f.Message)
	}
	if code == codes.OK && err == io.EOF {
		return
	}
	if s := status.Convert(err); s.Code() != code || !strings.HasPrefix(s.Message(), message) {
		p.t.Fatalf("ended with %v", err)
	}
}

func TestGRPCRemovedToken(t *testing.T) {
	d := openDoor(t, server.Config{}, server.GRPCConfig{})
	p := d.call(d.dial())
	p.say(run(1, "wait"))
	receive(t, d.service.started)
	replaceFile(t, d.tokens, "read "+readToken+"\n", 0o600)
	p.expect(`{"id":1,"ok":false,"error":{"code":"AUTH_FAILED"`)
	p.ended(codes.Unauthenticated, "")
}

func TestGRPCCalls(t *testing.T) {
	d := openDoor(t, server.Config{}, server.GRPCConfig{})
	p := d.call(d.dial())
	p.say(`{"id":1,"method":"system.ping"}`)
	p.expect(`{"id":1,"ok":true,"data":{"uptime_s":1,"version":"test"}}`)
	p.say("{\"id\":\"a\",\n\r\"method\":\"exec.run\",\n\"params\":{\"session_id\":\"s\",\n\"command\":\"echo a\\nb\"}}\n")
	if f := p.expect(`{"id":"a","ok":true,"data":{`); string(f.Raw["stdout"]) != "a\nb" || len(f.Raw) != 1 || strings.Contains(string(f.Message), `a\nb`) {
		t.Errorf("%s", f)
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	p.say(`{"params":{"session_id":"s","stdin_base64":"eHh4","command":"stdin"},"method":"exec.run","id":2}`, "stdin", string(all))
	if f := p.expect(`{"id":2,"ok":true,`); !bytes.Equal(f.Raw["stdout"], all) || strings.Contains(string(f.Message), "base64") {
		t.Errorf("%s", f)
	}
	p.say(`{"id":3,"method":"exec.run","params":{"session_id":"s","command":"stdin"}}`, "nonsense", "x")
	p.expect(`{"id":3,"ok":false,"error":{"code":"INVALID_PARAMS","message":"params.nonsense_base64: unknown field"`)
	p.say(`{"id":4,"method":"exec.run"}`, "stdin", "x")
	p.expect(`{"id":4,"ok":false,"error":{"code":"INVALID_PARAMS","message":"params.session_id: is required"`)
	p.say(`{"id":5,"method":"sesion.list"}`)
	p.expect(`{"id":5,"ok":false,"error":{"code":"METHOD_NOT_FOUND"`)
	for _, bad := range []string{"nothing", "[1]", `"x"`, "{", "\xff"} {
		p.say(bad, "x", "y")
		p.expect(`{"id":null,"ok":false,"error":{"code":"INVALID_PARAMS"`)
	}
	p.say("")
	p.say("", "data", "x")
	p.say(`{"id":6,"method":"exec.run","params":{"session_id":"s","command":"panic"}}`)
	p.expect(`{"id":6,"ok":false,"error":{"code":"INTERNAL_ERROR"`)
}

func TestGRPCStream(t *testing.T) {
	d := openDoor(t, server.Config{}, server.GRPCConfig{})
	p := d.call(d.dial())
	p.say(`{"id":1,"method":"exec.stream","params":{"session_id":"s","command":"count 100"}}`)
	p.expect(`{"id":1,"ok":true,"data":{"stream_id":"x-s"`)
	bytes := 0
	for {
		f := p.hear()
		var ev api.StreamEvent
		if err := json.Unmarshal(f.Message, &ev); err != nil {
			t.Fatal(err)
		}
		if ev.Type == api.EventExit {
			break
		}
		if *ev.Offset != int64(bytes) || ev.Data != "" || len(f.Message) > 200 {
			t.Fatalf("%s", f.Message)
		}
		bytes += len(f.Raw["data"])
	}
	if bytes != 100*32<<10 {
		t.Errorf("%d bytes", bytes)
	}
	<-d.service.closed
}

func TestGRPCAuthorisation(t *testing.T) {
	d := newDoor(t, server.Config{}, server.GRPCConfig{})
	cc := d.dial()
	d.call(cc).ended(codes.Unavailable, "RUNTIME_UNAVAILABLE: the daemon is starting")
	d.call(cc, "Bearer wrong-token-0123456789").ended(codes.Unauthenticated, "AUTH_FAILED: token: is wrong")
	d.grpc.Ready()
	for _, none := range []string{"Basic " + fullToken, "Bearer", "Bearer ", fullToken} {
		d.call(cc, none).ended(codes.Unauthenticated, "AUTH_FAILED: token: is required")
	}
	d.call(cc, "Bearer "+fullToken+"x").ended(codes.Unauthenticated, "AUTH_FAILED: token: is wrong")
	if n := strings.Count(d.log.String(), "wrong token"); n != 1 || strings.Contains(d.log.String(), "0123456789") {
		t.Errorf("%d complaints: %s", n, d.log)
	}
	p := d.call(cc, "bearer "+readToken)
	p.say(`{"id":1,"method":"exec.run","params":{"session_id":"s","command":"echo a"}}`)
	p.expect(`{"id":1,"ok":false,"error":{"code":"FORBIDDEN"`)
	p.say(`{"id":2,"method":"system.ping"}`)
	p.expect(`{"id":2,"ok":true`)
	p.say(`{"id":3,"method":"exec.stream","params":{"session_id":"s","command":"count 1"}}`)
	p.expect(`{"id":3,"ok":false,"error":{"code":"FORBIDDEN"`)
	if d.service.calls.Load() != 0 {
		t.Error("it was carried out")
	}
	p = d.call(cc, "Bearer "+readToken, "Bearer "+fullToken)
	p.say(`{"id":1,"method":"exec.run","params":{"session_id":"s","command":"echo a"}}`)
	p.expect(`{"id":1,"ok":true`)
	p.say(`{"id":2,"method":"system.http","params":{"on":true}}`)
	p.expect(`{"id":2,"ok":false,"error":{"code":"FORBIDDEN","message":"method \"system.http\": only for callers on the daemon's socket`)
}

// TestGRPCEnd: a client may end its side and wait for answers; cancelling the call disconnects it.
func TestGRPCEnd(t *testing.T) {
	d := openDoor(t, server.Config{}, server.GRPCConfig{})
	cc := d.dial()
	p := d.call(cc)
	p.say(`{"id":1,"method":"exec.run","params":{"session_id":"s","command":"hold x"}}`)
	if err := p.CloseSend(); err != nil {
		t.Fatal(err)
	}
	<-d.service.started
	d.service.release("x")
	p.expect(`{"id":1,"ok":true`)
	p.ended(codes.OK, "")

	for _, leave := range []func(p *phone){
		func(p *phone) { p.hangUp() },
		func(p *phone) { _ = p.CloseSend(); p.hangUp() },
		func(*phone) { cc.Close() },
	} {
		p := d.call(cc)
		p.say(`{"id":1,"method":"exec.run","params":{"session_id":"s","command":"wait"}}`)
		<-d.service.started
		leave(p)
		testkit.Eventually(t, "no request is running and no connection is open", func() bool { return d.service.running.Load() == 0 && d.Connections() == 0 })
	}
}

// TestGRPCShutdown: a waiting call gets the reason; an unused connection does not delay the shutdown.
func TestGRPCShutdown(t *testing.T) {
	d := openDoor(t, server.Config{}, server.GRPCConfig{})
	silent, err := net.Dial("tcp", d.address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	idle, p := d.dial(), d.call(d.dial())
	q := d.call(idle)
	q.say(`{"id":1,"method":"system.ping"}`)
	q.expect(`{"id":1`)
	q.hangUp()
	p.say(`{"id":1,"method":"exec.run","params":{"session_id":"s","command":"wait"}}`)
	p.say(`{"id":2,"method":"exec.stream","params":{"session_id":"s","command":"tick"}}`)
	p.expect(`{"id":2`)
	<-d.service.started
	go d.close()
	ends := map[string]bool{}
	for range 2 {
		f := p.hear()
		ends[string(f.Message[:8])] = strings.Contains(string(f.Message), `"code":"RUNTIME_UNAVAILABLE","message":"the daemon is shutting down"`)
	}
	if !ends[`{"id":1,`] || !ends[`{"stream`] {
		t.Errorf("%v", ends)
	}
	p.ended(codes.OK, "")
}

func TestGRPCRequestSize(t *testing.T) {
	d := openDoor(t, server.Config{MaxRequestBytes: 1 << 20}, server.GRPCConfig{})
	cc := d.dial()
	p := d.call(cc)
	big := strings.Repeat("x", 1<<20)
	p.say(`{"params":{"session_id":"s","command":"stdin"},"method":"exec.run","id":7}`, "stdin", big[:700<<10])
	if f := p.expect(`{"id":7,"ok":true`); len(f.Raw["stdout"]) != 700<<10 {
		t.Errorf("%d bytes", len(f.Raw["stdout"]))
	}
	p.say(`{"params":{"session_id":"s","command":"stdin"},"method":"exec.run","id":8}`, "stdin", big)
	p.expect(`{"id":8,"ok":false,"error":{"code":"REQUEST_TOO_LARGE","message":"request: larger than max_request_bytes (1048576)"`)
	p.say(`{"id":9,"method":"system.ping"}`)
	p.expect(`{"id":9,"ok":true`)
	p.say(big + big + big + big)
	p.ended(codes.ResourceExhausted, "grpc: received message larger than max")
	p = d.call(cc)
	p.say(`{"id":9,"method":"system.ping"}`)
	p.expect(`{"id":9,"ok":true`)
}

func TestGRPCManyConnections(t *testing.T) {
	d := openDoor(t, server.Config{MaxConnections: 2}, server.GRPCConfig{MaxConnections: 1})
	cc := d.dial()
	var calls []*phone
	for range 2 {
		p := d.call(cc)
		p.say(`{"id":1,"method":"system.ping"}`)
		p.expect(`{"id":1`)
		calls = append(calls, p)
	}
	d.call(cc).ended(codes.ResourceExhausted, "RESOURCE_PRESSURE: connection: max_connections (2) reached")
	calls[0].hangUp()
	testkit.Eventually(t, "one connection is open", func() bool { return d.Connections() == 1 })
	p := d.call(cc)
	p.say(`{"id":1,"method":"system.ping"}`)
	p.expect(`{"id":1`)

	nc, err := net.Dial("tcp", d.address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	if n, err := nc.Read(make([]byte, 100)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("one connection too many: %d bytes, %v", n, err)
	}
	cc.Close()
	testkit.Eventually(t, "no connection is open", func() bool { return d.Connections() == 0 })
	p = d.call(d.dial())
	p.say(`{"id":1,"method":"system.ping"}`)
	p.expect(`{"id":1`)
}

// TestGRPCNeverReads: the server disconnects a client that reads nothing, frees its resources, and
// delays no other client for it.
func TestGRPCNeverReads(t *testing.T) {
	const limit = 4 * time.Second // the client that does read must not be held up for so long
	d := openDoor(t, server.Config{WriteTimeout: limit}, server.GRPCConfig{})
	cc := d.dial()
	p := d.call(cc)
	p.say(`{"id":1,"method":"exec.stream","params":{"session_id":"s","command":"count 1000000"}}`)
	testkit.Eventually(t, "a push has been taken", func() bool { return d.service.received.Load() > 0 })
	q := d.call(cc)
	for range 20 { // over the same TCP connection
		q.say(`{"id":1,"method":"system.ping"}`)
		q.expect(`{"id":1`)
	}
	<-d.service.closed
	testkit.Eventually(t, "one connection is open", func() bool { return d.Connections() == 1 })
	if n := d.service.received.Load(); n > 200 {
		t.Errorf("%d pushes were made for nobody", n)
	}
	for {
		if _, err := p.Recv(); err != nil {
			if s := status.Convert(err); s.Code() != codes.Unavailable || !strings.Contains(s.Message(), "the peer read nothing for "+limit.String()) {
				t.Errorf("%v", err)
			}
			break
		}
	}
	q.say(`{"id":1,"method":"exec.run","params":{"session_id":"s","command":"size 3000000"}}`)
	if f := q.expect(`{"id":1,"ok":true`); len(f.Raw["stdout"]) != 3000000 {
		t.Errorf("%d bytes", len(f.Raw["stdout"]))
	}
}

func TestGRPCGarbage(t *testing.T) {
	d := openDoor(t, server.Config{}, server.GRPCConfig{})
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\xff", 1000), strings.Repeat("\x00", 1<<16), "\n",
	} {
		nc, err := net.Dial("tcp", d.address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(nc, text)
		_ = nc.(*net.TCPConn).CloseWrite()
		_ = nc.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, nc); os.IsTimeout(err) {
			t.Errorf("%.20q: %v", text, err)
		}
		nc.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cc := d.dial()
	err := cc.Invoke(ctx, "/trl.v1.TRL/Other", &rpc.Frame{}, &rpc.Frame{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("%v", err)
	}
	p := d.call(cc)
	if err := p.SendMsg(&rpc.Frame{Message: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	p.expect(`{"id":null`)
}

// TestListenGRPC: beyond this machine only with TLS.
func TestListenGRPC(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0"} {
		if ln, err := server.ListenGRPC(address, false); err == nil || !strings.Contains(err.Error(), "grpc "+address+": other machines can reach this address; give tls_cert and tls_key") {
			t.Errorf("%v, %v", ln, err)
		}
	}
}
