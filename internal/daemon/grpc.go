package daemon

import (
	"net"
	"strings"

	"github.com/trl-dev/trl/internal/server"
)

// rpc serves gRPC. It listens while sessions are still being recovered, so that clients get an
// answer that says so.
type rpc struct {
	listener *net.TCPListener
	secure   bool         // it speaks TLS
	grpc     *server.GRPC // nil until it is started
	ended    chan error
}

// listenGRPC listens for gRPC if the configuration says so. For a daemon on stdio only a flag counts,
// as for its socket. given is a descriptor of the program before this one, or 0.
func (d *daemon) listenGRPC(given int) (err error) {
	c := d.config
	if c.GRPC == "" || d.o.Stdio && !strings.HasPrefix(c.Origin("grpc"), "flag ") {
		return nil
	}
	r := &rpc{secure: c.TLSCert != "", ended: make(chan error, 1)}
	if given > 0 {
		r.listener, err = adoptTCP("grpc", given)
	} else {
		r.listener, err = server.ListenGRPC(c.GRPC, r.secure)
	}
	if err == nil {
		d.rpc = r
	}
	return err
}

// startGRPC starts to serve. Until Ready, every answer says that the daemon is starting.
func (d *daemon) startGRPC() error {
	r := d.rpc
	if r == nil {
		return nil
	}
	c := server.GRPCConfig{Tokens: d.tokens, MaxConnections: int(d.config.MaxHTTPConnections)}
	if r.secure {
		var err error
		c.TLS, err = server.NewTLS(d.config.TLSCert, d.config.TLSKey, d.log)
		if err == nil && d.config.GRPCClientCA != "" {
			c.TLS, err = server.NeedClientCert(c.TLS, d.config.GRPCClientCA, d.log)
		}
		if err != nil {
			return err
		}
	}
	r.grpc = d.server.NewGRPC(c)
	go func() { r.ended <- r.grpc.Serve(r.listener) }()
	return nil
}

// stopGRPC waits until gRPC has ended. The server has been shut down before.
func (d *daemon) stopGRPC() {
	if d.rpc != nil && d.rpc.grpc != nil {
		<-d.rpc.ended
	}
}

// grpcAddress returns the daemon's address for gRPC, "" without gRPC.
func (d *daemon) grpcAddress() string {
	switch {
	case d.rpc == nil:
		return ""
	case d.rpc.secure:
		return "grpcs://" + d.rpc.listener.Addr().String()
	}
	return "grpc://" + d.rpc.listener.Addr().String()
}
