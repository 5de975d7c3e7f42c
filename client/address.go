package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/place"
)

// Connect connects to the daemon at an address and returns when the daemon has answered. The address
// is the path of a unix socket, or a URL such as http://127.0.0.1:7330 or grpc://127.0.0.1:7331, whose
// token Token finds. The empty address stands for $TRL_SOCKET_PATH, or else for the daemon of this
// user; see DialUser.
func Connect(ctx context.Context, address string) (*Client, error) {
	if address == "" {
		address = os.Getenv("TRL_SOCKET_PATH")
	}
	if address == "" {
		return DialUser(ctx, DefaultStateDir())
	}
	if !IsURL(address) {
		return Dial(ctx, address)
	}
	token, err := Token(address, filepath.Join(DefaultStateDir(), "token"))
	if err != nil {
		return nil, err
	}
	return DialURL(ctx, address, token)
}

// DialURL connects to the daemon at an HTTP or gRPC URL and returns when the daemon has answered. For
// grpcs, $TRL_CA_FILE names the file to verify the daemon's certificate with, and $TRL_CLIENT_CERT and
// $TRL_CLIENT_KEY name the files of the client's certificate.
func DialURL(ctx context.Context, address, token string) (*Client, error) {
	if IsGRPC(address) {
		o := GRPCOptions{Token: token}
		if strings.HasPrefix(address, "grpcs://") {
			o.CAFile, o.CertFile, o.KeyFile = os.Getenv("TRL_CA_FILE"), os.Getenv("TRL_CLIENT_CERT"), os.Getenv("TRL_CLIENT_KEY")
		}
		return DialGRPC(ctx, address, o)
	}
	c, err := DialHTTP(address, token)
	if err != nil {
		return nil, err
	}
	c.ReconnectFor = 0
	if _, err := c.SystemPing(ctx, api.SystemPingParams{}); err != nil {
		_ = c.Close()
		return nil, err
	}
	c.ReconnectFor = DefaultReconnectFor
	return c, nil
}

// IsURL reports whether an address is a URL of HTTP or gRPC and not the path of a socket.
func IsURL(address string) bool { return isHTTP(address) || IsGRPC(address) }

func isHTTP(address string) bool {
	return strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")
}

// DefaultSocket is where the daemon of this user listens by default:
// $TRL_SOCKET_PATH, else trl/trl.sock in /run/user/<uid> where that exists, else
// /tmp/trl-<uid>/trl.sock. DialUser also finds a daemon that listens elsewhere.
func DefaultSocket() string {
	if path := os.Getenv("TRL_SOCKET_PATH"); path != "" {
		return path
	}
	return place.Sockets()[0]
}

// DefaultStateDir is the state directory of the daemon of this user: $TRL_STATE_DIR, else
// .local/state/trl in the home directory that the user database has, or that $HOME names if that one
// cannot be used, else /tmp/trl-<uid>/state.
func DefaultStateDir() string {
	if dir := os.Getenv("TRL_STATE_DIR"); dir != "" {
		return dir
	}
	return place.StateDir(os.Getenv)
}

// Token finds the token for the daemon at a URL: $TRL_AUTH_TOKEN; or else, for a daemon on this
// machine, the best token of its token file, by default the file token in its state directory. It
// returns "" if there is none.
func Token(address, file string) (string, error) {
	if token := os.Getenv("TRL_AUTH_TOKEN"); token != "" {
		return token, nil
	}
	if !IsLocal(address) { // the token of this machine must not leave it
		return "", nil
	}
	token, err := ReadToken(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return token, err
}

// IsLocal reports whether an address belongs to this machine: the path of a socket, or a URL with a
// loopback address.
func IsLocal(address string) bool {
	if !IsURL(address) {
		return true
	}
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// ReadToken reads the best token of a token file, which may consist of a token alone.
func ReadToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", api.Errorf(api.CodeAuthFailed, "token"), err)
	}
	return firstToken(string(text)), nil
}

// firstToken reads the lines of a token file: TOKEN, full TOKEN, read TOKEN, or a comment after #. It
// prefers a token that may do everything to one that may only read.
func firstToken(text string) string {
	reading := ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case len(words) == 1:
			return words[0]
		case words[0] == "full":
			return words[1]
		case words[0] == "read" && reading == "":
			reading = words[1]
		}
	}
	return reading
}
