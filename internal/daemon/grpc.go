package daemon

import (
	"net"
	"strings"

	"github.com/trl-dev/trl/internal/server"
)

// rpc is the door for gRPC. It is open while sessions are still being found, so that who
// asks can be told.
type rpc struct {
	listener *net.TCPListener
	secure   bool         // it speaks TLS
	grpc     *server.GRPC // nil until it is started
	ended    chan error
}

// listenGRPC listens for gRPC if that is asked for. A daemon on stdio does so only for a
// flag, as with its socket. given is a descriptor of the program before, or 0.
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

// startGRPC begins to serve. Until Ready, everybody is told to come back.
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

// stopGRPC waits for its end after the server was shut down.
func (d *daemon) stopGRPC() {
	if d.rpc != nil && d.rpc.grpc != nil {
		<-d.rpc.ended
	}
}

// grpcAddress is the daemon's address for gRPC, "" without it.
func (d *daemon) grpcAddress() string {
	switch {
	case d.rpc == nil:
		return ""
	case d.rpc.secure:
		return "grpcs://" + d.rpc.listener.Addr().String()
	}
	return "grpc://" + d.rpc.listener.Addr().String()
}
