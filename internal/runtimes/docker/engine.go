package docker

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/docker/go-connections/tlsconfig"
	"github.com/moby/moby/client"

	"github.com/trl-dev/trl/api"
)

// address says where an engine listens and how its connections are encrypted. It is part of the
// record of a place, so that a later daemon with other variables finds the same engine.
type address struct {
	Host     string `json:"host"`               // such as unix:///var/run/docker.sock
	Certs    string `json:"certs,omitempty"`    // directory with ca.pem, cert.pem and key.pem; empty for no TLS
	Unproved bool   `json:"unproved,omitempty"` // the certificate of the engine is not verified
}

// surroundings are what the address of the engine follows from.
type surroundings struct {
	env    func(string) string
	home   string
	exists func(path string) bool
}

func (d *Driver) surroundings() surroundings {
	home, _ := os.UserHomeDir()
	return surroundings{env: os.Getenv, home: home, exists: func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}}
}

const defaultSocket = "/var/run/docker.sock"

// findEngine returns the engine that is named, else that of DOCKER_HOST, else that of the current
// docker context, else the first default socket of Docker or Podman that exists.
func findEngine(named string, s surroundings) (address, error) {
	switch name := s.env("DOCKER_CONTEXT"); {
	case named != "":
		return s.address(named)
	case s.env("DOCKER_HOST") != "":
		return s.address(s.env("DOCKER_HOST"))
	case name != "" && name != "default":
		return s.context(name)
	}
	c, err := s.config()
	if err != nil {
		return address{}, err
	}
	if c.CurrentContext != "" && c.CurrentContext != "default" {
		return s.context(c.CurrentContext)
	}
	for _, path := range s.sockets() {
		if s.exists(path) {
			return address{Host: "unix://" + path}, nil
		}
	}
	return address{}, api.Errorf(api.CodeRuntimeUnavailable, "no container engine was found: none of the sockets %s exists; start Docker or Podman, or name the engine with DOCKER_HOST, a docker context or the option engine", strings.Join(s.sockets(), ", "))
}

// sockets are the default ones, of Docker and Podman, with and without root.
func (s surroundings) sockets() []string {
	list := []string{defaultSocket}
	if dir := s.env("XDG_RUNTIME_DIR"); dir != "" {
		list = append(list, dir+"/docker.sock", dir+"/podman/podman.sock")
	}
	return append(list, "/run/podman/podman.sock")
}

// address turns the word for an engine into its address, with the certificates of the variables.
func (s surroundings) address(host string) (address, error) {
	if strings.HasPrefix(host, "/") {
		host = "unix://" + host
	}
	a := address{Host: host}
	u, err := client.ParseHostURL(host)
	switch {
	case strings.HasPrefix(host, "ssh://"):
		return a, api.Errorf(api.CodeInvalidParams, "engine %s: TRL does not reach engines over ssh; use ssh:%s as the place, or forward the engine's socket with ssh -L", host, strings.TrimPrefix(host, "ssh://"))
	case err != nil:
		return a, api.Errorf(api.CodeInvalidParams, "engine %q: %s; an engine is written as unix:///PATH or tcp://HOST:PORT", host, err)
	case u.Scheme != "unix" && u.Scheme != "tcp" && u.Scheme != "http" && u.Scheme != "https":
		return a, api.Errorf(api.CodeInvalidParams, "engine %q: the protocol %s is not known; use unix:///PATH or tcp://HOST:PORT", host, u.Scheme)
	case u.Scheme == "unix":
		return a, nil
	}
	verify := s.env("DOCKER_TLS_VERIFY") != ""
	a.Certs = s.env("DOCKER_CERT_PATH")
	if a.Certs == "" && verify {
		a.Certs = s.configDir()
	}
	a.Unproved = a.Certs != "" && !verify
	return a, nil
}

// context returns the address of a docker context.
func (s surroundings) context(name string) (address, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	path := filepath.Join(s.configDir(), "contexts", "meta", id, "meta.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return address{}, api.Errorf(api.CodeRuntimeUnavailable, "docker context %q: not found; docker context ls lists the contexts", name)
	} else if err != nil {
		return address{}, api.Errorf(api.CodeRuntimeUnavailable, "docker context %q: %s", name, err)
	}
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return address{}, api.Errorf(api.CodeRuntimeUnavailable, "docker context %q: %s: %s", name, path, err)
	}
	end := meta.Endpoints["docker"]
	if end.Host == "" {
		return address{}, api.Errorf(api.CodeRuntimeUnavailable, "docker context %q: it names no docker engine", name)
	}
	a, err := surroundings{env: func(string) string { return "" }}.address(end.Host)
	if err != nil {
		return a, err
	}
	if certs := filepath.Join(s.configDir(), "contexts", "tls", id, "docker"); s.exists(certs) {
		a.Certs, a.Unproved = certs, end.SkipTLSVerify
	}
	return a, nil
}

// engine is one container engine.
type engine struct {
	address
	*client.Client
	host string // the name of its machine

	mu      sync.Mutex
	volumes map[string]bool // names of volumes whose runner was verified
	filling sync.Mutex      // held while the content of a volume is verified or written
}

// newEngine does not contact the engine.
func newEngine(a address) (*engine, error) {
	// The client gets a copy of the transport, and adds the dialer of the address to it.
	transport, scheme := &http.Transport{MaxIdleConnsPerHost: 16}, "http"
	if a.Certs != "" {
		config, err := tlsconfig.Client(tlsconfig.Options{
			CAFile: filepath.Join(a.Certs, "ca.pem"), CertFile: filepath.Join(a.Certs, "cert.pem"), KeyFile: filepath.Join(a.Certs, "key.pem"),
			InsecureSkipVerify: a.Unproved, MinVersion: tls.VersionTLS12,
		})
		if err != nil {
			return nil, api.Errorf(api.CodeRuntimeUnavailable, "engine %s: the certificates in %s: %s", a.Host, a.Certs, err)
		}
		transport.TLSClientConfig, scheme = config, "https"
	}
	c, err := client.New(client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}), client.WithHost(a.Host), client.WithScheme(scheme), client.WithUserAgent("trl"))
	if err != nil {
		return nil, api.Errorf(api.CodeInvalidParams, "engine %q: %s", a.Host, err)
	}
	e := &engine{address: a, Client: c, volumes: map[string]bool{}}
	if u, err := url.Parse(a.Host); err == nil && u.Scheme != "unix" {
		e.host = u.Hostname()
	} else {
		e.host, _ = os.Hostname()
	}
	return e, nil
}

// broken says why the engine cannot be reached; nil if err says something else.
func (e *engine) broken(err error) *api.Error {
	socket, local := strings.CutPrefix(e.Host, "unix://")
	switch {
	case err == nil || !client.IsErrConnectionFailed(err) && !isDialError(err):
		return nil
	case local && denied(socket):
		return api.Errorf(api.CodeRuntimeUnavailable, "engine %s: no permission on the socket%s", e.Host, whoMay(socket)).Because(reasonPermission)
	case local:
		if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
			return api.Errorf(api.CodeRuntimeUnavailable, "engine %s: not running: the socket does not exist; start the engine, or name another with DOCKER_HOST or the option engine", e.Host)
		}
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "engine %s: not reachable: %s", e.Host, plain(err))
}

// reasonPermission is the reason of errors about a socket that the daemon may not use.
const reasonPermission = "permission"

func isDialError(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EACCES)
}

func denied(socket string) bool {
	const readAndWrite = 6
	return errors.Is(syscall.Access(socket, readAndWrite), fs.ErrPermission)
}

// whoMay says who may use a socket, and what to do to be one of them.
func whoMay(socket string) string {
	info, err := os.Stat(socket)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	group := strconv.Itoa(int(st.Gid))
	if g, err := user.LookupGroupId(group); err == nil {
		group = g.Name
	}
	if info.Mode().Perm()&0o060 != 0o060 || st.Gid == 0 {
		return fmt.Sprintf(", which only its owner (uid %d) may use; run the daemon as that user, or name an engine of this user, such as rootless Podman, with DOCKER_HOST or the option engine", st.Uid)
	}
	me := "USER"
	if u, err := user.Current(); err == nil {
		me = u.Username
	}
	return fmt.Sprintf(", which belongs to the group %s: add the daemon's user to that group (sudo usermod -aG %s %s), log in again and restart the daemon", group, group, me)
}

// plain is the message of an error of the engine, without the prefixes that say nothing.
func plain(err error) string {
	text := strings.TrimSpace(err.Error())
	for _, prefix := range []string{"Error response from daemon: ", "error during connect: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return strings.TrimSuffix(text, ".")
}

// fails turns an error of the engine into one of package api. what names the container or image that the request was about.
func (e *engine) fails(ctx context.Context, what string, err error) error {
	var known *api.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	if b := e.broken(err); b != nil {
		return b
	}
	text := plain(err)
	if strings.Contains(text, "no space left on device") {
		return api.Errorf(api.CodeRuntimeUnavailable, "%s: the disk of the engine is full: %s; docker system df shows what uses it", what, text)
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "%s: %s", what, text)
}
