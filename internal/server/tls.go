package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
		c.log.Warn("new certificate cannot be used; keeping the old one", "error", err)
		return c.current
	}
	c.log.Info("certificate has changed", "file", c.certFile)
	c.current = &pair
	return c.current
}

// authority is a file of certificates that may be replaced while it is used. It is safe
// for concurrent use.
type authority struct {
	file string
	log  *slog.Logger

	mu      sync.Mutex
	stamp   stamp          // guarded by mu; of the file as it was tried last
	current *x509.CertPool // guarded by mu
}

// NeedClientCert makes a configuration that NewTLS made ask every client for a
// certificate, which one in the file, in PEM, must have signed. The file is read again
// when it has changed; one that cannot be used then leaves the old one in force.
func NeedClientCert(base *tls.Config, file string, log *slog.Logger) (*tls.Config, error) {
	a := &authority{file: file, log: log, stamp: stampOf(file)}
	var err error
	if a.current, err = readPool(file); err != nil {
		return nil, fmt.Errorf("grpc_client_ca: %w", err)
	}
	c := base.Clone()
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		one := c.Clone()
		one.ClientCAs = a.get()
		return one, nil
	}
	return c, nil
}

func readPool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New(file + ": contains no PEM certificate")
	}
	return pool, nil
}

func (a *authority) get() *x509.CertPool {
	now := stampOf(a.file)
	a.mu.Lock()
	defer a.mu.Unlock()
	if now == a.stamp {
		return a.current
	}
	a.stamp = now
	pool, err := readPool(a.file)
	if err != nil {
		a.log.Warn("new file of client CAs cannot be used; keeping the old one", "error", err)
		return a.current
	}
	a.log.Info("certificate has changed", "file", a.file)
	a.current = pool
	return a.current
}
