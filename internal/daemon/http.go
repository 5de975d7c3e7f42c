package daemon

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/mcp"
	"github.com/trl-dev/trl/internal/server"
)

var httpFront = frontKind{
	name: "http", label: "HTTP",
	setting: func(c config.Config) string { return c.HTTP },
	listen: func(d *daemon, address string, secure bool) (*net.TCPListener, error) {
		return server.ListenHTTP(address, secure || d.config.HTTPInsecure)
	},
	serve: (*daemon).serveHTTP,
}

// httpServer is a frontServer. Stop ends the sessions of MCP that its clients left open.
type httpServer struct {
	*server.HTTP
	stop context.CancelFunc
}

func (s httpServer) Stop() { s.stop() }

// openTokens reads the tokens, or makes the first one: HTTP and gRPC need a token.
func (d *daemon) openTokens() error {
	if d.tokens.Load() != nil {
		return nil
	}
	c := server.TokensConfig{Token: os.Getenv(config.EnvAuthToken), File: d.tokenFile(), Logger: d.log}
	_, c.Make = d.config.TokenPath()
	tokens, err := server.NewTokens(c)
	if err == nil {
		d.tokens.Store(tokens)
	}
	return err
}

// tokenFile returns the path of the file with the tokens, "" if only the environment has one.
func (d *daemon) tokenFile() string {
	if os.Getenv(config.EnvAuthToken) != "" && d.config.TokenFile == "" {
		return ""
	}
	path, _ := d.config.TokenPath()
	return path
}

func (d *daemon) serveHTTP(f *front, svc api.Service) (frontServer, error) {
	c := server.HTTPConfig{
		Tokens: d.tokens.Load(), Logins: d.logins, Hosts: config.Words(d.config.HTTPHosts), Origins: config.Words(d.config.HTTPOrigins),
		MaxConnections: int(d.config.MaxHTTPConnections),
	}
	if f.secure {
		var err error
		if c.TLS, err = server.NewTLS(d.config.TLSCert, d.config.TLSKey, d.log); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	c.Handlers = map[string]http.Handler{"/mcp": mcp.Handler(ctx, mcp.Config{
		Service: d.traced(d.audited(d.plain, &api.Caller{Transport: "mcp"})), Hold: d.registry.Hold, Logger: d.log, PreferShell: preferredShell, TextShell: textShell(d.config),
	})}
	return httpServer{d.server.NewHTTP(c), stop}, nil
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
