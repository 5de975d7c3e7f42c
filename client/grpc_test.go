package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/rpc"
)

func TestDialGRPCErrors(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:7331", "http://127.0.0.1:7331", "grpc://", "grpc://h", "grpc://:1", "grpc://h:1/path", "grpc://h:1?x=1", "grpc://u:p@h:1", "grpc://a b:1"} {
		if _, err := client.DialGRPC(timeout(t), address, client.GRPCOptions{}); !errors.Is(err, api.ErrInvalidParams) {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, o := range []client.GRPCOptions{{Token: "a\nb"}, {CAFile: "x"}, {CertFile: "x"}, {KeyFile: "x"}, {ServerName: "x"}} {
		if _, err := client.DialGRPC(timeout(t), "grpc://127.0.0.1:1", o); !errors.Is(err, api.ErrInvalidParams) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := client.DialGRPC(timeout(t), "grpc://192.0.2.1:1", client.GRPCOptions{Token: "secret"}); !errors.Is(err, api.ErrInvalidParams) || !strings.Contains(err.Error(), "use grpcs") {
		t.Error(err)
	}
	if !client.IsURL("grpc://h:1") || !client.IsURL("grpcs://h:1") || client.IsGRPC("http://h") || client.IsLocal("grpc://192.0.2.1:1") || !client.IsLocal("grpcs://[::1]:1") {
		t.Error("addresses are mistaken")
	}
}

// rpcDaemon is a server of gRPC that says what the test wants.
type rpcDaemon struct {
	call func(grpc.BidiStreamingServer[rpc.Frame, rpc.Frame]) error
}

func (d rpcDaemon) Call(s grpc.BidiStreamingServer[rpc.Frame, rpc.Frame]) error { return d.call(s) }

func serveGRPC(t *testing.T, register func(*grpc.Server)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ln) })
	t.Cleanup(func() { s.Stop(); serving.Wait() })
	return "grpc://" + ln.Addr().String()
}

// TestGRPCStrangers: the error for a server that is no daemon differs from that for a missing daemon.
func TestGRPCStrangers(t *testing.T) {
	foreign := serveGRPC(t, func(*grpc.Server) {})
	if _, err := client.DialGRPC(timeout(t), foreign, client.GRPCOptions{}); api.AsError(err).Code != api.CodeInternal || !strings.Contains(err.Error(), "may not be a TRL daemon") {
		t.Error(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			conns = append(conns, nc) // and says nothing
		}
	})
	silent := "grpc://" + ln.Addr().String()
	o := client.GRPCOptions{ConnectTimeout: 200 * time.Millisecond}
	if _, err := client.DialGRPC(timeout(t), silent, o); !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), "did not answer within 200ms") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if _, err := client.DialGRPC(ctx, silent, client.GRPCOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ln.Close()
	accepting.Wait()
	for _, nc := range conns {
		nc.Close()
	}
	if _, err := client.DialGRPC(timeout(t), silent, client.GRPCOptions{}); !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, api.ErrRuntimeUnavailable) ||
		!strings.HasPrefix(err.Error(), "daemon at "+silent+": ") {
		t.Error(err)
	}
}

// TestGRPCRefusals: what was refused before it was read may be tried again.
func TestGRPCRefusals(t *testing.T) {
	answers := make(chan func(grpc.BidiStreamingServer[rpc.Frame, rpc.Frame]) error, 10)
	says := func(err error) func(grpc.BidiStreamingServer[rpc.Frame, rpc.Frame]) error {
		return func(grpc.BidiStreamingServer[rpc.Frame, rpc.Frame]) error { return err }
	}
	answer := func(s grpc.BidiStreamingServer[rpc.Frame, rpc.Frame]) error {
		for {
			f, err := s.Recv()
			if err != nil {
				return err
			}
			id, _, _ := strings.Cut(string(f.Message), ",")
			if strings.Contains(string(f.Message), "system.upgrade") {
				return status.Error(codes.Internal, "broken")
			}
			if err := s.Send(&rpc.Frame{Message: []byte(id + `,"ok":true,"data":{"version":""}}`), Raw: map[string][]byte{"version": []byte("raw")}}); err != nil {
				return err
			}
		}
	}
	address := serveGRPC(t, func(s *grpc.Server) {
		rpc.RegisterTRLServer(s, rpcDaemon{func(s grpc.BidiStreamingServer[rpc.Frame, rpc.Frame]) error { return (<-answers)(s) }})
	})
	answers <- says(rpc.Status(api.ErrDaemonStarting))
	if _, err := client.DialGRPC(timeout(t), address, client.GRPCOptions{}); err == nil || err.Error() != api.ErrDaemonStarting.Message {
		t.Error(err)
	}
	answers <- says(rpc.Status(api.Errorf(api.CodeAuthFailed, "token: is wrong")))
	if _, err := client.DialGRPC(timeout(t), address, client.GRPCOptions{}); api.AsError(err).Code != api.CodeAuthFailed || err.Error() != "token: is wrong" {
		t.Error(err)
	}
	answers <- answer
	c, err := client.DialGRPC(timeout(t), address, client.GRPCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r, err := c.SystemPing(timeout(t), api.SystemPingParams{}); err != nil || r.Version != "raw" {
		t.Errorf("%+v, %v", r, err)
	}
	// A change that was sent may have been made.
	if _, err := c.SystemUpgrade(timeout(t), api.SystemUpgradeParams{}); !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.HasSuffix(err.Error(), "it is not known whether system.upgrade was done") {
		t.Error(err)
	}
	// One that was not read has not.
	answers <- says(rpc.Status(api.Errorf(api.CodeResourcePressure, "connection: max_connections (1) reached")))
	answers <- says(rpc.Status(api.ErrDaemonStarting))
	answers <- answer
	if _, err := c.SessionDestroy(timeout(t), api.SessionDestroyParams{SessionID: "s"}); err != nil {
		t.Error(err)
	}
	// A caller that only reads waits for a daemon that has ended to return.
	answers <- answer
	c.SystemUpgrade(timeout(t), api.SystemUpgradeParams{})
	if _, err := c.SystemPing(timeout(t), api.SystemPingParams{}); err != nil {
		t.Error(err)
	}
	waiting := make(chan error, 1)
	answers <- func(s grpc.BidiStreamingServer[rpc.Frame, rpc.Frame]) error { <-s.Context().Done(); return nil }
	go func() {
		s, err := c.EventSubscribe(timeout(t), api.EventSubscribeParams{})
		if err == nil {
			_, err = s.Recv()
		}
		waiting <- err
	}()
	c.Close()
	if err := <-waiting; !errors.Is(err, api.ErrRuntimeUnavailable) && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}
