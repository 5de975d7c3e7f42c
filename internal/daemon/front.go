package daemon

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
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
	release  func()        // of the hold of a front that was turned on by hand; else nil
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
	// setting returns the configured address, "" for none.
	setting func(config.Config) string
	listen  func(d *daemon, address string, secure bool) (*net.TCPListener, error)
	serve   func(d *daemon, f *front, svc api.Service) (frontServer, error)
}

var frontKinds = []frontKind{httpFront, grpcFront}

// configured returns the address that the configuration asks for, "" for none. For a daemon on
// stdio only a flag counts, as for its socket.
func (d *daemon) configured(kind frontKind) string {
	if d.o.Stdio && !strings.HasPrefix(d.config.Origin(kind.name), "flag ") {
		return ""
	}
	return kind.setting(d.config)
}

// listenFronts listens on every front that the configuration asks for, and on those that were
// turned on by hand in the program before this one. given has the descriptors of that program, by
// the name of the front.
func (d *daemon) listenFronts(given map[string]int) error {
	for _, kind := range frontKinds {
		address := d.configured(kind)
		if chosen, ok := d.chosen[kind.name]; ok {
			address = chosen
		}
		f, err := d.listenFront(kind, address, given[kind.name])
		if err != nil {
			d.closeFronts()
			return err
		}
		if f != nil {
			d.fronts = append(d.fronts, f)
		}
	}
	return nil
}

// listenFront makes a front that listens, nil if the address is empty. If the descriptor fd of the
// program before this one, 0 for none, listens on that address, the front adopts it.
func (d *daemon) listenFront(kind frontKind, address string, fd int) (*front, error) {
	f := &front{frontKind: kind, secure: d.config.TLSCert != ""}
	var err error
	if fd > 0 {
		if f.listener, err = adoptTCP(kind.name, fd); err != nil {
			return nil, err
		}
		if address != "" && fits(f.listener.Addr(), address) {
			return f, nil
		}
		f.listener.Close() // the configuration has changed
	}
	if address == "" {
		return nil, nil
	}
	f.listener, err = kind.listen(d, address, f.secure)
	return f, err
}

// fits reports whether a listener is one for the address of a setting. Port 0 is any port.
func fits(listener net.Addr, address string) bool {
	want, err := net.ResolveTCPAddr("tcp", address)
	has, ok := listener.(*net.TCPAddr)
	if err != nil || !ok {
		return false
	}
	everywhere := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	return (want.Port == 0 || want.Port == has.Port) && (want.IP.Equal(has.IP) || everywhere(want.IP) && everywhere(has.IP))
}

// startFronts makes the fronts serve.
func (d *daemon) startFronts() error {
	for _, f := range d.fronts {
		if err := d.startFront(f); err != nil {
			return err
		}
		if d.chosen[f.name] != "" {
			var err error
			if f.release, err = d.registry.Hold(); err != nil {
				return err
			}
		}
	}
	return nil
}

// startFront makes a front serve. If it ends by itself, the daemon ends.
func (d *daemon) startFront(f *front) error {
	s, err := f.serve(d, f, d.service)
	if err != nil {
		return err
	}
	f.server, f.ended = s, make(chan struct{})
	go func() {
		if f.err = s.Serve(f.listener); f.err != nil {
			select {
			case d.ends <- ending{"no client can connect by " + f.label + " any more", f.err}:
			default: // it ends already
			}
		}
		close(f.ended)
	}()
	return nil
}

// keepFronts makes the list of fronts final, for a daemon that ends, and returns it.
func (d *daemon) keepFronts() []*front {
	d.frontsMu.Lock()
	defer d.frontsMu.Unlock()
	d.frontsFinal = true
	return d.fronts
}

// stopFronts waits until the fronts have ended. The server has been shut down before.
func (d *daemon) stopFronts() {
	for _, f := range d.keepFronts() {
		if f.ended != nil {
			f.server.Stop()
			<-f.ended
		}
	}
}

func (d *daemon) closeFronts() {
	for _, f := range d.keepFronts() {
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

// frontURLs returns the base of the URLs for HTTP, and the address for gRPC; "" for what is off.
func (d *daemon) frontURLs() (http, grpc string) {
	d.frontsMu.Lock()
	defer d.frontsMu.Unlock()
	url := func(name string) string {
		if i := d.findFront(name); i >= 0 {
			return d.fronts[i].url()
		}
		return ""
	}
	return url(httpFront.name), url(grpcFront.name)
}

// findFront returns the index of the front of that name, -1 for none. frontsMu is held.
func (d *daemon) findFront(name string) int {
	return slices.IndexFunc(d.fronts, func(f *front) bool { return f.name == name })
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
		return nil, fmt.Errorf("inherited %s socket: %s is not a TCP socket", name, ln.Addr())
	}
	return tcp, nil
}
