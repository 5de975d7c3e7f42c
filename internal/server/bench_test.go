package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

// BenchmarkRoundTrip is one request after another, beside its floor: two
// goroutines that pass the same bytes over a socket and do nothing else.
func BenchmarkRoundTrip(b *testing.B) {
	const ask = `{"id":"1","method":"exec.run","params":{"session_id":"s","command":"echo hello"}}` + "\n"
	b.Run("floor", func(b *testing.B) {
		ln, err := net.Listen("unix", filepath.Join(testkit.Dir(b), "s"))
		if err != nil {
			b.Fatal(err)
		}
		defer ln.Close()
		go func() {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
		}()
		conn, err := net.Dial("unix", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		lines := bufio.NewReader(conn)
		for b.Loop() {
			_, _ = io.WriteString(conn, ask)
			if _, err := lines.ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("server", func(b *testing.B) {
		p := start(b, server.Config{}).dial(b)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = io.WriteString(p, ask)
			if _, err := p.lines.ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("server and client", func(b *testing.B) {
		d := start(b, server.Config{})
		c, err := client.Dial(context.Background(), d.socket)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.ExecRun(context.Background(), api.ExecParams{SessionID: "s", Command: "echo hello"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("service alone", func(b *testing.B) {
		m, _ := api.FindMethod("exec.run")
		svc := newService()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.Call(context.Background(), svc, []byte(`{"session_id":"s","command":"echo hello"}`)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStream is how fast pushes reach a Go client.
func BenchmarkStream(b *testing.B) {
	b.Run("socket", func(b *testing.B) {
		d := start(b, server.Config{})
		c, err := client.Dial(context.Background(), d.socket)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		streams(b, c, d.service)
	})
	b.Run("grpc", func(b *testing.B) {
		d := openDoor(b, server.Config{}, server.GRPCConfig{})
		c, err := client.DialGRPC(context.Background(), "grpc://"+d.address, client.GRPCOptions{Token: fullToken})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		streams(b, c, d.service)
	})
}

func streams(b *testing.B, c *client.Client, svc *service) {
	const pieces = 1000
	b.SetBytes(pieces * 32 << 10)
	b.ReportAllocs()
	for b.Loop() {
		s, err := c.ExecStream(context.Background(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "b", Command: "count 1000"}})
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = s.Recv()
		}
		if err != io.EOF {
			b.Fatal(err)
		}
		<-svc.closed
	}
}
