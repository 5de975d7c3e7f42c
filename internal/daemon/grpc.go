package daemon

import (
	"net"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/server"
)

var grpcFront = frontKind{
	name: "grpc", label: "gRPC",
	setting: func(c config.Config) string { return c.GRPC },
	listen: func(_ *daemon, address string, secure bool) (*net.TCPListener, error) {
		return server.ListenGRPC(address, secure)
	},
	serve: (*daemon).serveGRPC,
}

// grpcServer is a frontServer. Its connections end with the server.
type grpcServer struct{ *server.GRPC }

func (grpcServer) Stop() {}

func (d *daemon) serveGRPC(f *front, _ api.Service) (frontServer, error) {
	c := server.GRPCConfig{Tokens: d.tokens.Load(), MaxConnections: int(d.config.MaxHTTPConnections)}
	if f.secure {
		var err error
		c.TLS, err = server.NewTLS(d.config.TLSCert, d.config.TLSKey, d.log)
		if err == nil && d.config.GRPCClientCA != "" {
			c.TLS, err = server.NeedClientCert(c.TLS, d.config.GRPCClientCA, d.log)
		}
		if err != nil {
			return nil, err
		}
	}
	return grpcServer{d.server.NewGRPC(c)}, nil
}
