package daemon

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
)

// front is a TCP listener of the daemon: HTTP or gRPC. It listens while sessions are still being
// recovered, so that clients learn that the daemon is starting.
type front struct {
	frontKind
	listener *net.TCPListener
	secure   bool // it speaks TLS
	server   frontServer
	err      error         // why the front ended; valid once ended is closed
	ended    chan struct{} // nil until the front is started
}

// frontServer serves the connections of a front. Until Ready, every answer says that the daemon is
// starting. Stop ends what does not end with the connections.
type frontServer interface {
	Serve(net.Listener) error
	Ready()
	Stop()
}

// frontKind says how a kind of front is made.
type frontKind struct {
	name  string // of its setting, in the log and in the handover to the next program
	label string // in messages
	// address returns the configured address, "" for none.
	address func(*daemon) string
	listen  func(d *daemon, address string, secure bool) (*net.TCPListener, error)
	serve   func(d *daemon, f *front, svc api.Service) (frontServer, error)
}

var frontKinds = []frontKind{httpFront, grpcFront}

// listenFronts listens on every front that the configuration asks for. For a daemon on stdio only a
// flag counts, as for its socket. given has the descriptors of the program before this one, by the
// name of the front.
func (d *daemon) listenFronts(given map[string]int) error {
	for _, kind := range frontKinds {
		address := kind.address(d)
		if address == "" || d.o.Stdio && !strings.HasPrefix(d.config.Origin(kind.name), "flag ") {
			continue
		}
		f := &front{frontKind: kind, secure: d.config.TLSCert != ""}
		var err error
		if fd := given[kind.name]; fd > 0 {
			f.listener, err = adoptTCP(kind.name, fd)
		} else {
			f.listener, err = kind.listen(d, address, f.secure)
		}
		if err != nil {
			d.closeFronts()
			return err
		}
		d.fronts = append(d.fronts, f)
	}
	return nil
}

// startFronts makes the fronts serve.
func (d *daemon) startFronts(svc api.Service) error {
	for _, f := range d.fronts {
		s, err := f.serve(d, f, svc)
		if err != nil {
			return err
		}
		f.server, f.ended = s, make(chan struct{})
		go func() {
			f.err = s.Serve(f.listener)
			close(f.ended)
		}()
	}
	return nil
}

// stopFronts waits until the fronts have ended. The server has been shut down before.
func (d *daemon) stopFronts() {
	for _, f := range d.fronts {
		if f.ended != nil {
			f.server.Stop()
			<-f.ended
		}
	}
}

func (d *daemon) closeFronts() {
	for _, f := range d.fronts {
		f.listener.Close()
	}
}

// url returns the base of the front's URLs, such as grpcs://127.0.0.1:7331.
func (f *front) url() string {
	scheme := f.name
	if f.secure {
		scheme += "s"
	}
	return scheme + "://" + f.listener.Addr().String()
}

// frontURL returns the URL of the front of that name, "" for none.
func (d *daemon) frontURL(name string) string {
	for _, f := range d.fronts {
		if f.name == name {
			return f.url()
		}
	}
	return ""
}

// handOver duplicates the descriptor of the listener for the next program.
func (f *front) handOver() (fd int, err error) {
	raw, err := f.listener.SyscallConn()
	if err != nil {
		return 0, err
	}
	if controlErr := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD, 3) }); controlErr != nil {
		err = controlErr
	}
	return fd, err
}

func adoptTCP(name string, fd int) (*net.TCPListener, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), name)
	defer f.Close() // FileListener duplicates the descriptor
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("inherited %s socket: %w", name, err)
	}
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		ln.Close()
		return nil, fmt.Errorf("inherited %s socket: %s is not of TCP", name, ln.Addr())
	}
	return tcp, nil
}
