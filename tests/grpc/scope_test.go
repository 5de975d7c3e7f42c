package grpc_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestReadersCancelNothing: a stream with detach false cancels its command when it is closed, so a
// token of scope read cannot open one for a command of others, over any transport.
func TestReadersCancelNothing(t *testing.T) {
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--token-file", tokenFile(t)))
	owner := d.Client(t)
	ctx := timeout(t)
	session := testkit.Must(owner.SessionCreate(ctx, api.SessionCreateParams{}))(t)
	exec := testkit.Must(owner.ExecStart(ctx, api.ExecParams{SessionID: session.SessionID, Command: "exec sleep 1000"}))(t)
	url := testkit.Must(owner.SystemInfo(ctx, api.SystemInfoParams{}))(t).HTTP
	follow := func(detach bool) string {
		text, err := json.Marshal(map[string]any{"exec_id": exec.ExecID, "detach": detach})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	overHTTP := func(ctx context.Context, token, params string) string {
		req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/exec.stream", strings.NewReader(params))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return ""
		}
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
	overWebSocket := func(ctx context.Context, token, params string) string {
		ws, _, err := websocket.Dial(ctx, url+"/v1/ws", &websocket.DialOptions{Subprotocols: []string{"trl.v1", "trl.token." + token}})
		if err != nil {
			t.Fatal(err)
		}
		defer ws.CloseNow()
		if err := ws.Write(ctx, websocket.MessageText, []byte(`{"id":1,"method":"exec.stream","params":`+params+`}`)); err != nil {
			t.Fatal(err)
		}
		_, answer, err := ws.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(answer), `"ok":true`) {
			return ""
		}
		return string(answer)
	}
	overGRPC := func(ctx context.Context, token, params string) string {
		c, err := client.DialGRPC(ctx, d.GRPC(t), client.GRPCOptions{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var p api.ExecStreamParams
		if err := json.Unmarshal([]byte(params), &p); err != nil {
			t.Fatal(err)
		}
		s, err := c.ExecStream(ctx, p)
		if err != nil {
			return string(api.AsError(err).Code) + " " + err.Error()
		}
		s.Close()
		return ""
	}
	for _, c := range []struct {
		name string
		open func(ctx context.Context, token, params string) (refused string)
	}{{"HTTP", overHTTP}, {"WebSocket", overWebSocket}, {"gRPC", overGRPC}} {
		ctx, cancel := context.WithCancel(ctx)
		if refused := c.open(ctx, readToken, follow(true)); refused != "" {
			t.Errorf("%s: a reader may follow: %s", c.name, refused)
		}
		if refused := c.open(ctx, readToken, follow(false)); !strings.Contains(refused, "FORBIDDEN") || !strings.Contains(refused, "scope full") {
			t.Errorf("%s: a reader opened a stream that cancels: %s", c.name, refused)
		}
		cancel()
	}
	if info := testkit.Must(owner.ExecInfo(ctx, api.ExecInfoParams{ExecID: exec.ExecID}))(t); info.State != api.ExecRunning {
		t.Fatalf("the command has ended: %+v", info)
	}
	// A caller that may control the session can do it.
	if refused := overHTTP(ctx, fullToken, follow(false)); refused != "" {
		t.Error(refused)
	}
	r := testkit.Must(owner.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{exec.ExecID}}))(t)
	if len(r.Happened) != 1 || r.Happened[0].Outcome == nil || !r.Happened[0].Outcome.Cancelled {
		t.Errorf("%+v", r)
	}
	http.DefaultClient.CloseIdleConnections()
}
