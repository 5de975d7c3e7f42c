package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// TokenPath returns the file of the tokens for HTTP and gRPC, and whether the daemon makes it if it is
// missing.
func (c Config) TokenPath() (path string, own bool) {
	if c.TokenFile != "" {
		return c.TokenFile, false
	}
	return filepath.Join(c.StateDir, "token"), true
}

// checkHTTP looks at the settings of HTTP and gRPC together.
func (c *Config) checkHTTP() error {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		given, missing := "tls_cert", "tls_key"
		if c.TLSCert == "" {
			given, missing = missing, given
		}
		return fmt.Errorf("%s: is required, because %s is set (%s)", missing, given, c.Origin(given))
	}
	if c.GRPCClientCA != "" && c.TLSCert == "" {
		return fmt.Errorf("tls_cert: is required, because grpc_client_ca is set (%s)", c.Origin("grpc_client_ca"))
	}
	for _, host := range Words(c.HTTPHosts) {
		if !validHost(host) {
			return fmt.Errorf("http_hosts: %q: must be a name or an address, without a port (%s)", host, c.Origin("http_hosts"))
		}
	}
	for _, origin := range Words(c.HTTPOrigins) {
		if !validOrigin(origin) {
			return fmt.Errorf("http_origins: %q: must be an origin such as https://app.example.com, without a path (%s)", origin, c.Origin("http_origins"))
		}
	}
	return nil
}

// checkAddress rejects an address on which the daemon cannot listen. It also rejects an empty
// host: that would mean all interfaces of the machine, which a user must ask for explicitly.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n > 65535 || host == "" {
		return fmt.Errorf("%q: must be a host and a port, such as 127.0.0.1:7330 (0.0.0.0 for all interfaces, port 0 for any)", address)
	}
	return nil
}

// checkURL rejects a URL to which reports should not be sent. Its error does not repeat the URL, whose path
// may have a secret.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("must be a URL such as https://example.com/hook, without a user and a fragment")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fmt.Errorf("http://%s: others on the network could read the reports; use https", u.Host)
	}
	return nil
}

// checkEndpoint rejects a text that is not the URL of a collector. Traces have no values, so http is
// allowed. A password is not, because trl config would print it.
func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be a URL such as http://127.0.0.1:4318, without a password")
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

func validOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme != "" && u.Host != "" && origin == u.Scheme+"://"+u.Host
}
