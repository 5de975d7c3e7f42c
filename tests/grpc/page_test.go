package grpc_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/rpc"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// follow is the program of docs/grpc.md. It returns the output of the session.
func follow(ctx context.Context, address, token string) (output []byte, err error) {
	c, err := client.DialGRPC(ctx, address, client.GRPCOptions{Token: token})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r, err := client.OpenRemote(ctx, c, "agent", client.RemoteOptions{OnState: func(s client.StateChange) { log.Println(s.State, s.Reason) }})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	err = r.Write(ctx, []byte("{\"type\":\"hello\"}\n")) // written once, however often the connection breaks
	if err != nil {
		return nil, err
	}
	for {
		piece, err := r.Recv(ctx) // piece.Offset, piece.Data; io.EOF after the exit
		if errors.Is(err, io.EOF) {
			return output, nil
		}
		if err != nil || piece.Type == api.EventStdout && piece.Offset != int64(len(output)) {
			return output, errors.Join(err, errors.New("a piece has another offset"))
		}
		output = append(output, piece.Data...)
	}
}

// TestGoOfThePage runs the program of the page with a session that prints its first line of input.
func TestGoOfThePage(t *testing.T) {
	shown := trltest.OneSnippet(t, "docs/grpc.md", "## Go", "go")
	if name := trltest.FunctionWith(t, "page_test.go", strings.Replace(shown, `"grpcs://box.example:7331"`, "address", 1)); name != "follow" {
		t.Errorf("the program of the page is %q", name)
	}
	d := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0"))
	testkit.Must(d.Client(t).SessionCreate(timeout(t), api.SessionCreateParams{Name: "agent", Kind: api.KindProgram, Command: []string{"head", "-n", "1"}}))(t)
	var states testkit.Buffer
	log.SetOutput(&states)
	defer log.SetOutput(io.Discard)
	output, err := follow(timeout(t), d.GRPC(t), d.Token(t))
	if err != nil || string(output) != "{\"type\":\"hello\"}\n" {
		t.Errorf("%q, %v", output, err)
	}
	if got := states.String(); !strings.Contains(got, " connecting") || !strings.Contains(got, " connected") {
		t.Errorf("states:\n%s", got)
	}
}

// TestFramesOfThePage sends the request of the page as a frame, and compares the frames that come back.
func TestFramesOfThePage(t *testing.T) {
	d := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0"))
	testkit.Must(d.Client(t).SessionCreate(timeout(t), api.SessionCreateParams{Name: "build"}))(t)
	cc := testkit.Must(grpc.NewClient("passthrough:///"+strings.TrimPrefix(d.GRPC(t), "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer cc.Close()
	call := testkit.Must(rpc.NewTRLClient(cc).Call(metadata.AppendToOutgoingContext(timeout(t), "authorization", "Bearer "+d.Token(t))))(t)
	for line := range strings.Lines(trltest.OneSnippet(t, "docs/grpc.md", "## The protocol", "text")) {
		if request, ok := strings.CutPrefix(line, "→ "); ok {
			if err := call.Send(&rpc.Frame{Message: []byte(request)}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		shown, raw, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "← ")), "raw: data = ")
		f := testkit.Must(call.Recv())(t)
		data := testkit.Must(hex.DecodeString(raw))(t)
		if !trltest.Matches(strings.TrimSpace(shown), string(f.Message)) || !bytes.Equal(f.Raw["data"], data) {
			t.Errorf("the page shows\n%sthe daemon sent\n%s, raw %x", line, f.Message, f.Raw)
		}
	}
	if err := call.CloseSend(); err != nil {
		t.Error(err)
	}
}
