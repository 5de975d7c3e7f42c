package trl_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/rpc"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/trl"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// other is a daemon of which only the answers are needed: by method, the data or the error. One under
// "METHOD limits" is for requests with limits.
type other struct{ answers map[string]string }

func (o other) Call(stream grpc.BidiStreamingServer[rpc.Frame, rpc.Frame]) error {
	for {
		frame, err := stream.Recv()
		if err != nil {
			return nil
		}
		req, bad := wire.ParseRequest(frame.Message)
		if bad != nil {
			return bad
		}
		answer, ok := o.answers[req.Method]
		if refusal, has := o.answers[req.Method+" limits"]; has && bytes.Contains(req.Params, []byte(`"limits"`)) {
			answer = refusal
		}
		if !ok {
			answer = `"ok":false,"error":{"code":"METHOD_NOT_FOUND","message":"method: not found"}`
		}
		if err := stream.Send(&rpc.Frame{Message: fmt.Appendf(nil, `{"id":%s,%s}`, req.ID, answer)}); err != nil {
			return err
		}
	}
}

// serve starts it, and returns the place that it is.
func (o other) serve(t *testing.T) session.Target {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	rpc.RegisterTRLServer(s, o)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ln)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	address := "grpc://" + ln.Addr().String()
	return session.Target{Word: "trl:" + address, Kind: api.PlaceTRL, Options: api.PlaceOptions{Address: address}}
}

// testTimeout bounds one attempt.
const testTimeout = time.Minute

const pong = `"ok":true,"data":{"uptime_s":1,"version":"0.0.1"}`

func open(t *testing.T, to session.Target) error {
	t.Helper()
	d := trl.New(trl.Config{DaemonID: "d-me"})
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	_, err := d.Open(ctx, remote.Opening{Daemon: "d-me", SessionID: "s-0000000001", Target: to})
	if err == nil {
		t.Error("the place was opened")
	} else if check := d.Check(ctx, to); check.Reachable || check.Why == "" {
		t.Errorf("check: %+v", check)
	}
	return err
}

func TestOlderDaemon(t *testing.T) {
	err := open(t, other{map[string]string{"system.ping": pong}}.serve(t))
	testkit.WantError(t, err, api.CodeRuntimeUnavailable, "its version is too old to run sessions of other daemons; upgrade it")
}

func TestItself(t *testing.T) {
	err := open(t, other{map[string]string{"system.ping": pong, "guest.list": `"ok":true,"data":{"guests":[],"daemon_id":"d-me"}`}}.serve(t))
	testkit.WantError(t, err, api.CodeConflict, "is this daemon itself; use the place host")
}

func TestReadOnlyToken(t *testing.T) {
	err := open(t, other{map[string]string{"system.ping": pong, "guest.list": `"ok":false,"error":{"code":"FORBIDDEN","message":"token: only reads"}`}}.serve(t))
	testkit.WantError(t, err, api.CodeForbidden, "only reads")
}

// TestOlderDaemonLimits: a daemon that does not know the limits of guests gets none, and the runner enforces
// what it can.
func TestOlderDaemonLimits(t *testing.T) {
	answers := map[string]string{
		"system.ping": pong, "guest.list": `"ok":true,"data":{"guests":[],"daemon_id":"d-you"}`,
		"guest.start":        `"ok":true,"data":{"session_id":"s-0000000001","daemon_id":"d-you","place":{"kind":"host"}}`,
		"guest.start limits": `"ok":false,"error":{"code":"INVALID_PARAMS","message":"params.limits: unknown parameter","details":{"field":"limits"}}`,
	}
	to := other{answers}.serve(t)
	d := trl.New(trl.Config{DaemonID: "d-me"})
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	site := testkit.Must(d.Open(ctx, remote.Opening{Daemon: "d-me", SessionID: "s-0000000001", Target: to}))(t)
	spec := session.Spec{About: session.About{SessionID: "s-0000000001"}, Params: api.SessionCreateParams{Limits: &api.Limits{Pids: new(int64(9))}}}
	testkit.Must(site.(remote.Keeper).Start(ctx, spec))(t)
	if list := site.(remote.Limiter).Limits(); len(list) > 0 {
		t.Errorf("the place enforces %+v", list)
	}
}

// TestBadTargets: the error names what is wrong.
func TestBadTargets(t *testing.T) {
	for _, c := range []struct {
		o    api.PlaceOptions
		want string
	}{
		{api.PlaceOptions{Address: "box:7331"}, "grpc://127.0.0.1:7331"},
		{api.PlaceOptions{Address: "grpc://127.0.0.1:1"}, "refused"},
		{api.PlaceOptions{Address: "grpc://127.0.0.1:1", TokenFile: "/nonexistent/token"}, "/nonexistent/token"},
		{api.PlaceOptions{Address: "grpc://127.0.0.1:1", CAFile: "/nonexistent/ca"}, "certificates need grpcs"},
	} {
		if err := open(t, session.Target{Word: "trl", Kind: api.PlaceTRL, Options: c.o}); err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

func TestRestore(t *testing.T) {
	d := trl.New(trl.Config{DaemonID: "d-me"})
	defer d.Close()
	for _, text := range []string{`{}`, `{"address":"grpc://a:1"}`, `{"daemon":"d"}`, `[]`, `{"address":7}`} {
		if s, err := d.Restore([]byte(text)); err == nil {
			t.Errorf("%s: restored %+v", text, s)
		}
	}
	for record, want := range map[string]api.PlaceInfo{
		`{"address":"grpc://a:1","token_file":"/t","owner_lost_s":60,"daemon":"d-you","os":"linux","arch":"arm64"}`: {Kind: api.PlaceTRL, Address: "grpc://a:1", OS: "linux", Arch: "arm64"},
		`{"address":"grpc://a:1","runtime":"docker:i","daemon":"d-you","os":"darwin","arch":"arm64","there":{"kind":"docker","container":"c","image":"i","os":"linux"}}`: {
			Kind: api.PlaceTRL, Address: "grpc://a:1", Container: "c", Image: "i", OS: "linux", Arch: "arm64",
		},
	} {
		s, err := d.Restore([]byte(record))
		if err != nil || string(s.Record()) != record || s.ID() != "d-you" || s.Info() != want {
			t.Errorf("%s: %+v, %v", record, s, err)
		}
	}
}
