package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/rpc"
	"github.com/trl-dev/trl/internal/wire"
	"github.com/trl-dev/trl/tests/trltest"
)

// call makes a call of gRPC look like a connection: each line is a frame. What came beside
// the JSON is put into it.
type call struct {
	stream grpc.BidiStreamingClient[rpc.Frame, rpc.Frame]
	part   string // of a line whose end has not been written
}

func (s *script) grpcTransport(args []string) {
	s.t.Helper()
	d := trltest.Start(s.t, trltest.Args("--grpc", "127.0.0.1:0"), trltest.Args(args...))
	address, token := d.GRPC(s.t), d.Token(s.t)
	cc, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(address, "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	stream, err := rpc.NewTRLClient(cc).Call(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
	if err != nil {
		s.t.Fatal(err)
	}
	c := &call{stream: stream}
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.CloseWithError(c.receive(w))
	}()
	s.out, s.lines, s.end = c, bufio.NewReader(r), c.end
	s.daemon, s.leave = d, cancel
	s.t.Cleanup(func() {
		cancel()
		r.Close()
		<-done
		cc.Close()
	})
}

// receive writes what comes as lines, until the end.
func (c *call) receive(w io.Writer) error {
	for {
		f, err := c.stream.Recv()
		if err != nil {
			return err
		}
		line := f.Message
		switch {
		case len(f.Raw) == 0:
		case bytes.HasPrefix(line, []byte(`{"id":`)):
			line = wire.JoinAnswer(line, f.Raw)
		default: // a push
			var own struct {
				Data       string `json:"data"`
				DataBase64 string `json:"data_base64,omitempty"`
			}
			own.Data, own.DataBase64 = api.Text(f.Raw["data"])
			data, err := json.Marshal(own)
			if err != nil {
				return err
			}
			line = append(append(bytes.TrimSuffix(line, []byte("}")), ','), data[1:]...)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
}

// end ends the client's side, with what is there of a line.
func (c *call) end() error {
	_, err := c.Write([]byte("\n"))
	return errors.Join(err, c.stream.CloseSend())
}

// Write sends the lines that are complete.
func (c *call) Write(p []byte) (int, error) {
	lines := strings.SplitAfter(c.part+string(p), "\n")
	c.part = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		message, raw := wire.SplitRequest([]byte(line))
		if err := c.stream.Send(&rpc.Frame{Message: message, Raw: raw}); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
