package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
)

// certificate is a pair of files that may be replaced while it is used. It is safe
// for concurrent use.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	stamps  [2]stamp         // guarded by mu; of the files as they were tried last
	current *tls.Certificate // guarded by mu
}

// NewTLS makes the configuration of a server from two files in PEM. They are read again
// when they have changed; one that cannot be used then leaves the old one in force.
func NewTLS(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	c.stamps = c.stampsNow()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("tls_cert, tls_key: %w", err)
	}
	c.current = &pair
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}, nil
}

func (c *certificate) stampsNow() [2]stamp { return [2]stamp{stampOf(c.certFile), stampOf(c.keyFile)} }

func (c *certificate) get() *tls.Certificate {
	now := c.stampsNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now == c.stamps {
		return c.current
	}
	c.stamps = now
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil { // perhaps only one of the two is there yet
		c.log.Warn("certificate has changed and cannot be used; the old one stays in force", "error", err)
		return c.current
	}
	c.log.Info("certificate has changed", "file", c.certFile)
	c.current = &pair
	return c.current
}
