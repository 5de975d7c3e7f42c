package server_test

import (
	"encoding/json"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/rpc"
	"github.com/trl-dev/trl/internal/server"
)

// TestTraceparent: the Service knows the caller's position in a trace, by HTTP and by lines.
func TestTraceparent(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for _, want := range []string{"00-http", ""} {
		_, text := w.do("POST", "/v1/exec.run", command("traceparent"), "Traceparent", want)
		var result api.ExecResult
		if err := json.Unmarshal([]byte(text), &result); err != nil || result.Stdout != want {
			t.Errorf("HTTP: %q, %v in %s", result.Stdout, err, text)
		}
	}
	p := start(t, server.Config{}).dial(t)
	for _, want := range []string{"00-line", ""} {
		p.send(`{"id":1,"method":"exec.run","traceparent":"` + want + `","params":` + command("traceparent") + `}`)
		if got := stdout(t, p.answer()); got != want {
			t.Errorf("a line: %q", got)
		}
	}
}

// TestTraceparentOfGRPC: the metadata is for all requests of a call, and the member of a request for
// that request alone.
func TestTraceparentOfGRPC(t *testing.T) {
	d := openDoor(t, server.Config{}, server.GRPCConfig{})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+fullToken, "traceparent", "00-metadata")
	stream, err := rpc.NewTRLClient(d.dial()).Call(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p := &phone{stream, t, func() {}}
	for _, c := range []struct{ member, want string }{{"", "00-metadata"}, {`"traceparent":"00-member",`, "00-member"}, {"", "00-metadata"}} {
		p.say(`{"id":1,"method":"exec.run",` + c.member + `"params":` + command("traceparent") + `}`)
		if got := string(p.hear().Raw["stdout"]); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
