package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/mcp"
	"github.com/trl-dev/trl/internal/server"
)

// web serves HTTP. It listens while sessions are still being recovered, so that clients get an
// answer that says so.
type web struct {
	listener *net.TCPListener
	secure   bool // it speaks TLS
	http     *server.HTTP
	ended    chan error
	// forget ends the sessions of MCP that its clients left open.
	forget context.CancelFunc
}

// listenHTTP listens for HTTP if the configuration says so. For a daemon on stdio only a flag counts,
// as for its socket. given is a descriptor of the program before this one, or 0.
func (d *daemon) listenHTTP(given int) (err error) {
	c := d.config
	if c.HTTP == "" || d.o.Stdio && !strings.HasPrefix(c.Origin("http"), "flag ") {
		return nil
	}
	w := &web{secure: c.TLSCert != "", ended: make(chan error, 1)}
	if given > 0 {
		w.listener, err = adoptTCP("http", given)
	} else {
		w.listener, err = server.ListenHTTP(c.HTTP, w.secure || c.HTTPInsecure)
	}
	if err == nil {
		d.web = w
	}
	return err
}

// openTokens reads the tokens, or makes the first one: HTTP and gRPC need a token.
func (d *daemon) openTokens() (err error) {
	if d.web == nil && d.rpc == nil {
		return nil
	}
	c := server.TokensConfig{Token: os.Getenv(config.EnvAuthToken), Logger: d.log}
	if c.Token == "" || d.config.TokenFile != "" {
		c.File, c.Make = d.config.TokenPath()
	}
	d.tokens, err = server.NewTokens(c)
	return err
}

// startHTTP starts to serve. Until Ready, every answer says that the daemon is starting.
func (d *daemon) startHTTP(svc api.Service) error {
	w := d.web
	if w == nil {
		return nil
	}
	c := server.HTTPConfig{
		Tokens: d.tokens, Hosts: config.Words(d.config.HTTPHosts), Origins: config.Words(d.config.HTTPOrigins),
		MaxConnections: int(d.config.MaxHTTPConnections),
	}
	if w.secure {
		var err error
		if c.TLS, err = server.NewTLS(d.config.TLSCert, d.config.TLSKey, d.log); err != nil {
			return err
		}
	}
	ctx, forget := context.WithCancel(context.Background())
	w.forget = forget
	c.Handlers = map[string]http.Handler{"/mcp": mcp.Handler(ctx, mcp.Config{
		Service: svc, Logger: d.log, PreferShell: preferredShell, TextShell: textShell(d.config),
	})}
	w.http = d.server.NewHTTP(c)
	go func() { w.ended <- w.http.Serve(w.listener) }()
	return nil
}

// preferredShell is the shell for models, if it exists and the configuration names no other.
const preferredShell = "bash"

// textShell returns the shell that runs the text of models in sessions without a shell.
func textShell(c config.Config) string {
	if chosen := chosenShell(c); chosen != "" {
		return chosen
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, preferredShell)
		if filepath.IsAbs(path) && unix.Access(path, unix.X_OK) == nil {
			return path
		}
	}
	return api.DefaultShell
}

// stopHTTP waits until HTTP has ended. The server has been shut down before.
func (d *daemon) stopHTTP() {
	if d.web != nil && d.web.http != nil {
		d.web.forget()
		<-d.web.ended
	}
}

// url returns the base of the daemon's URLs, "" without HTTP.
func (d *daemon) url() string {
	switch {
	case d.web == nil:
		return ""
	case d.web.secure:
		return "https://" + d.web.listener.Addr().String()
	}
	return "http://" + d.web.listener.Addr().String()
}

// handOverTCP duplicates the descriptor of a listener for the next program.
func handOverTCP(ln *net.TCPListener) (fd int, err error) {
	raw, err := ln.SyscallConn()
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
