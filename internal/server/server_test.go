package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits that end at once when all is well.
const patience = 2 * time.Minute

// daemon is a Server on a socket, with the small service of this package.
type daemon struct {
	*server.Server
	service *service
	socket  string
	log     *testkit.Buffer
	served  chan error
}

func start(t testing.TB, cfg server.Config) *daemon {
	t.Helper()
	d := &daemon{service: newService(), log: &testkit.Buffer{}, served: make(chan error, 1)}
	d.socket = filepath.Join(testkit.Dir(t), "trl", "trl.sock")
	cfg.Service = d.service
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(d.log, nil))
	}
	d.Server = server.New(cfg)
	ln, err := server.Listen(d.socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() { d.served <- d.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %s", err)
		}
		if err := <-d.served; err != nil {
			t.Errorf("serve: %s", err)
		}
		if n := d.Connections(); n != 0 {
			t.Errorf("%d connections after the end", n)
		}
		if n := d.service.running.Load(); n != 0 {
			t.Errorf("%d requests after the end", n)
		}
	})
	return d
}

// peer is a client that sees lines.
type peer struct {
	*net.UnixConn
	t     testing.TB
	lines *bufio.Reader
}

func (d *daemon) dial(t testing.TB) *peer {
	t.Helper()
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	return d.newPeer(t, conn)
}

func (d *daemon) newPeer(t testing.TB, conn net.Conn) *peer {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	return &peer{UnixConn: conn.(*net.UnixConn), t: t, lines: bufio.NewReaderSize(conn, 64<<10)}
}

// dialSmall is dial for many peers at once.
func (d *daemon) dialSmall(t testing.TB) *peer {
	t.Helper()
	p := d.dial(t)
	p.lines = bufio.NewReaderSize(p.UnixConn, 512)
	return p
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	if _, err := io.WriteString(p, strings.Join(lines, "\n")+"\n"); err != nil {
		p.t.Fatalf("send: %s", err)
	}
}

func (p *peer) line() string {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatalf("receive: %s after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *peer) expect(want string) {
	p.t.Helper()
	if got := p.line(); got != want {
		p.t.Fatalf("got  %.500s\nwant %.500s", got, want)
	}
}

// answer is a line of the server.
type answer struct {
	ID       json.RawMessage
	OK       *bool
	Data     json.RawMessage
	Error    *api.Error
	StreamID string `json:"stream_id"`
	Seq      int64
	Type     string
}

func (p *peer) answer() answer {
	p.t.Helper()
	line := p.line()
	var a answer
	if err := json.Unmarshal([]byte(line), &a); err != nil && !strings.Contains(line, "stream_id") {
		p.t.Fatalf("%s in %q", err, line)
	}
	return a
}

// refused expects an error with that code and id.
func (p *peer) refused(id string, code api.Code) answer {
	p.t.Helper()
	a := p.answer()
	if string(a.ID) != id || a.Error == nil || a.Error.Code != code || *a.OK {
		p.t.Fatalf("id %s, error %+v; want id %s, %s", a.ID, a.Error, id, code)
	}
	return a
}

func (p *peer) eof() {
	p.t.Helper()
	if line, err := p.lines.ReadString('\n'); err != io.EOF {
		p.t.Fatalf("%q, %v; want the end", line, err)
	}
}

const pong = `"ok":true,"data":{"uptime_s":1,"version":"test"}}`

// ping proves that the connection works.
func (p *peer) ping() {
	p.t.Helper()
	p.send(`{"id":"ping","method":"system.ping"}`)
	p.expect(`{"id":"ping",` + pong)
}

func run(id int, command string) string {
	return fmt.Sprintf(`{"id":%d,"method":"exec.run","params":{"session_id":"s","command":%q}}`, id, command)
}

func stdout(t testing.TB, a answer) string {
	t.Helper()
	var r api.ExecResult
	if a.Error != nil {
		t.Fatalf("error %+v", a.Error)
	}
	if err := json.Unmarshal(a.Data, &r); err != nil {
		t.Fatal(err)
	}
	return r.Stdout
}

func receive[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func TestIDsAreEchoedAsSent(t *testing.T) {
	p := start(t, server.Config{}).dial(t)
	for _, id := range []string{
		`"1"`, `1`, `-0`, `1.50`, `123456789012345678901234567890`, `1e400`, `""`, `"\u00e9\"\\"`, `true`, `false`, `null`,
	} {
		p.send(`{"id":` + id + `,"method":"system.ping"}`)
		p.expect(`{"id":` + id + `,` + pong)
	}
	p.send(`{"method":"system.ping"}`)
	p.expect(`{"id":null,` + pong)
}

func TestRequestsAreTaken(t *testing.T) {
	p := start(t, server.Config{}).dial(t)
	for _, line := range []string{
		`{"id":1,"method":"system.ping","params":null}`,
		`{"id":1,"method":"system.ping","params":{}}`,
		`{"id":1,"method":"system.ping","params":{"unknown":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"system.ping","more":{"id":2}}`,
		"\n\n  \n{\"id\":1,\"method\":\"system.ping\"}\r",
		"\t{ \"id\" : 1 , \"method\" : \"system.ping\" } ",
	} {
		p.send(line)
		a := p.answer()
		if string(a.ID) != "1" || a.OK == nil || !*a.OK {
			t.Errorf("%q: %+v", line, a)
		}
	}
}

func TestErrors(t *testing.T) {
	p := start(t, server.Config{}).dial(t)
	tests := []struct {
		line, id string
		code     api.Code
		message  string
	}{
		{`hello`, `null`, api.CodeInvalidParams, "not JSON"},
		{`{"id":1,"method":"system.ping"`, `null`, api.CodeInvalidParams, "not JSON"},
		{`[{"id":1}]`, `null`, api.CodeInvalidParams, "not a list"},
		{`"x"`, `null`, api.CodeInvalidParams, "not a string"},
		{`{"id":3}`, `3`, api.CodeInvalidParams, "method: is required"},
		{`{"id":3,"method":4}`, `3`, api.CodeInvalidParams, "method: must be a string"},
		{`{"id":[1],"method":"system.ping"}`, `null`, api.CodeInvalidParams, "id: must be"},
		{"{\"id\":3,\"method\":\"\xff\"}", `null`, api.CodeInvalidParams, "UTF-8"},
		{"{\"id\":3,\x00}", `null`, api.CodeInvalidParams, "not JSON"},
		{`{"id":3,"method":"sesion.create"}`, `3`, api.CodeMethodNotFound, `did you mean "session.create"?`},
		{`{"id":3,"method":"Session/List"}`, `3`, api.CodeMethodNotFound, `did you mean "session.list"?`},
		{`{"id":3,"method":"destroy"}`, `3`, api.CodeMethodNotFound, `did you mean "session.destroy"?`},
		{`{"id":3,"method":"nothing.like.it"}`, `3`, api.CodeMethodNotFound, `method "nothing.like.it": not found; system.info`},
		{`{"id":3,"method":"` + strings.Repeat("é", 5000) + `"}`, `3`, api.CodeMethodNotFound, "ééé…"},
		{`{"id":3,"method":""}`, `3`, api.CodeMethodNotFound, `method ""`},
		{`{"id":3,"method":"exec.run","params":[]}`, `3`, api.CodeInvalidParams, "params: must be a JSON object"},
		{`{"id":3,"method":"exec.run","params":{"session_id":5}}`, `3`, api.CodeInvalidParams, "params.session_id: must be a string, not number"},
		{`{"id":3,"method":"exec.run","params":{"timeout":5}}`, `3`, api.CodeInvalidParams, "params.timeout: unknown field"},
		{`{"id":3,"method":"exec.run"}`, `3`, api.CodeInvalidParams, "params.session_id: is required"},
		{`{"id":3,"method":"session.info","params":{"session_id":"s-9"}}`, `3`, api.CodeSessionNotFound, `session "s-9": not found`},
		{`{"id":3,"method":"system.info"}`, `3`, api.CodeInternal, "system: plain error"},
		{`{"id":3,"method":"exec.run","params":{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}}`, `null`, api.CodeInvalidParams, "depth"},
	}
	for _, tt := range tests {
		p.send(tt.line)
		if a := p.refused(tt.id, tt.code); !strings.Contains(a.Error.Message, tt.message) || len(a.Error.Message) > 300 {
			t.Errorf("%.80s: message %q, want %q", tt.line, a.Error.Message, tt.message)
		}
	}
	p.ping()
}

// TestRequestsDoNotWaitForEachOther holds one request while others of the same
// connection are answered.
func TestRequestsDoNotWaitForEachOther(t *testing.T) {
	d := start(t, server.Config{})
	p := d.dial(t)
	p.send(run(1, "hold a"), run(2, "hold b"))
	receive(t, d.service.started)
	receive(t, d.service.started)
	p.ping()
	d.service.release("b")
	if a := p.answer(); string(a.ID) != "2" || stdout(t, a) != "b" {
		t.Errorf("%+v", a)
	}
	d.service.release("a")
	if a := p.answer(); string(a.ID) != "1" || stdout(t, a) != "a" {
		t.Errorf("%+v", a)
	}
}

func TestManyRequestsAtOnce(t *testing.T) {
	d := start(t, server.Config{})
	const clients, each = 8, 500
	var wg sync.WaitGroup
	for range clients {
		p := d.dial(t)
		wg.Go(func() {
			for i := range each {
				fmt.Fprintf(p, "%s\n", run(i, fmt.Sprintf("echo %d", i)))
			}
		})
		wg.Go(func() {
			seen := map[string]bool{}
			for range each {
				a := p.answer()
				if got := stdout(t, a); got != string(a.ID) || seen[got] {
					t.Errorf("id %s: %q", a.ID, got)
				}
				seen[string(a.ID)] = true
			}
		})
	}
	wg.Wait()
}

func TestPanicHurtsOneRequestOnly(t *testing.T) {
	d := start(t, server.Config{})
	p := d.dial(t)
	p.send(run(1, "hold a"))
	receive(t, d.service.started)
	p.send(run(2, "panic"))
	if a := p.refused(`2`, api.CodeInternal); strings.Contains(a.Error.Message, "secret") {
		t.Errorf("the panic went to the client: %s", a.Error.Message)
	}
	if log := d.log.String(); !strings.Contains(log, "the secret of the panic") || !strings.Contains(log, "service_test.go") {
		t.Errorf("the log has no stack: %s", log)
	}
	d.service.release("a")
	if a := p.answer(); stdout(t, a) != "a" {
		t.Errorf("%+v", a)
	}
	p.ping()
}

func TestTooManyConnections(t *testing.T) {
	d := start(t, server.Config{MaxConnections: 2})
	one, two := d.dial(t), d.dial(t)
	one.ping()
	two.ping()
	if n := d.Connections(); n != 2 {
		t.Errorf("%d connections", n)
	}
	three := d.dial(t)
	if a := three.refused(`null`, api.CodeResourcePressure); !strings.Contains(a.Error.Message, "max_connections (2)") {
		t.Errorf("%s", a.Error.Message)
	}
	three.eof()
	one.Close()
	testkit.Eventually(t, "one connection is open", func() bool { return d.Connections() == 1 })
	d.dial(t).ping()
	two.ping()
}

// TestMaxInFlight proves that the reader pauses, and goes on.
func TestMaxInFlight(t *testing.T) {
	d := start(t, server.Config{MaxInFlight: 3})
	p := d.dial(t)
	p.send(run(1, "hold a"), run(2, "hold a"), run(3, "hold a"), run(4, "echo late"))
	for range 3 {
		receive(t, d.service.started)
	}
	other := d.dial(t)
	other.ping()
	if n := d.service.running.Load(); n != 3 {
		t.Errorf("%d requests run", n)
	}
	d.service.release("a")
	seen := map[string]bool{}
	for range 4 {
		seen[stdout(t, p.answer())] = true
	}
	if !seen["late"] || !seen["a"] {
		t.Errorf("%v", seen)
	}
	p.ping()
}

// TestPausedReaderSeesTheEnd: all slots are taken by requests that never end, so the server does not
// read, and still notices that the client disconnects.
func TestPausedReaderSeesTheEnd(t *testing.T) {
	d := start(t, server.Config{MaxInFlight: 2})
	p := d.dial(t)
	p.send(run(1, "wait"), run(2, "wait"), run(3, "echo x"))
	receive(t, d.service.started)
	receive(t, d.service.started)
	p.Close()
	testkit.Eventually(t, "no request is running and no connection is open", func() bool { return d.service.running.Load() == 0 && d.Connections() == 0 })
}
