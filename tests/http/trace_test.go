package http_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	trl "github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/trace/tracetest"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestTraces: commands over every transport are part of the caller's trace, and a daemon that ends
// exports the spans of those that it ended.
func TestTraces(t *testing.T) {
	collector := tracetest.Start(t)
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--trace-endpoint", collector.URL, "--trace-commands"),
		trltest.Env("TRACEPARENT=00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01"))
	socket := d.Client(t)
	url, token := d.HTTP(t)
	web, err := trl.DialHTTP(url, token)
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	grpc, err := trl.DialGRPC(t.Context(), d.GRPC(t), trl.GRPCOptions{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer grpc.Close()

	traceID := func(n int) string { return fmt.Sprintf("%032x", n+1) }
	traceparent := func(n int) string { return "00-" + traceID(n) + "-00000000000000aa-01" }
	printed := map[string]string{} // the traceparent of a command, by the id of the trace
	const session = "traced"
	for n, c := range []api.Service{socket, web, grpc} {
		ctx := api.WithTraceparent(t.Context(), traceparent(n))
		if n == 0 {
			if _, err := c.SessionCreate(ctx, api.SessionCreateParams{Name: session}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := c.ExecRun(ctx, api.ExecParams{SessionID: session, Command: "printenv TRACEPARENT"})
		if err != nil {
			t.Fatal(err)
		}
		printed[traceID(n)] = strings.TrimSpace(r.Stdout)
	}
	cmd := exec.CommandContext(t.Context(), trltest.Binary(t), "--socket", d.Socket, "run", "-s", session, "--", "exit 3")
	cmd.Env = append(cmd.Environ(), "TRACEPARENT="+traceparent(3))
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := socket.ExecStart(api.WithTraceparent(t.Context(), traceparent(4)), api.ExecParams{SessionID: session, Command: "sleep 1000"}); err != nil {
		t.Fatal(err)
	}
	if _, err := socket.ExecRun(api.WithTraceparent(t.Context(), "nonsense"), api.ExecParams{SessionID: "SECRET", Command: "true"}); err == nil {
		t.Fatal("there is no such session")
	}
	d.Stop(t)

	spans := map[string]tracetest.Span{} // the commands, by the id of the trace
	for _, s := range collector.Spans() {
		switch {
		case s.Error != "":
			if s.ParentID != "" || s.Error != string(api.CodeSessionNotFound) {
				t.Errorf("%+v", s)
			}
		case s.Name == "exec":
			spans[s.TraceID] = s
		case s.TraceID != traceID(0) || s.Name != "session.create" || !slices.Contains(s.Attributes, "trl.session.runtime=host"):
			t.Errorf("%+v", s)
		}
	}
	for n, exit := range []int{0, 0, 0, 3, 130} {
		s := spans[traceID(n)]
		if s.ParentID != "00000000000000aa" || !slices.Contains(s.Attributes, fmt.Sprint("process.exit.code=", exit)) {
			t.Errorf("trace %d: %+v", n, s)
		}
		if got, want := printed[s.TraceID], "00-"+s.TraceID+"-"+s.ID+"-01"; n < 3 && got != want {
			t.Errorf("trace %d: the command has %s, want %s", n, got, want)
		}
	}
	if strings.Contains(collector.Received(), "SECRET") || strings.Contains(collector.Received(), session) {
		t.Errorf("values were exported: %q", collector.Received())
	}
}
