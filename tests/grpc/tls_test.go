package grpc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// issuer signs certificates. Everything it makes is in files.
type issuer struct {
	t    *testing.T
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its own certificate
}

func newIssuer(t *testing.T, name string) *issuer {
	t.Helper()
	is := &issuer{t: t, dir: t.TempDir(), name: name}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if is.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &is.key.PublicKey, is.key)
	if err != nil {
		t.Fatal(err)
	}
	if is.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	is.file = filepath.Join(is.dir, "ca.pem")
	is.write(is.file, "CERTIFICATE", der)
	return is
}

func (is *issuer) write(file, kind string, der []byte) {
	is.t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		is.t.Fatal(err)
	}
}

// pairFiles are the files of a certificate and its key.
type pairFiles struct{ cert, key string }

// issue makes a certificate for 127.0.0.1, valid for that time from now.
func (is *issuer) issue(name string, valid time.Duration) pairFiles {
	is.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		is.t.Fatal(err)
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(valid),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, is.cert, &key.PublicKey, is.key)
	if err != nil {
		is.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		is.t.Fatal(err)
	}
	p := pairFiles{filepath.Join(is.dir, name+".pem"), filepath.Join(is.dir, name+".key")}
	is.write(p.cert, "CERTIFICATE", der)
	is.write(p.key, "EC PRIVATE KEY", keyDER)
	return p
}

const fullToken, readToken = "full-token-0123456789", "read-token-0123456789"

func tokenFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("full "+fullToken+"\nread "+readToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// knock dials, and expects to be let in, or the code and a part of the message.
func knock(t *testing.T, what, address string, o client.GRPCOptions, code api.Code, text string) {
	t.Helper()
	c, err := client.DialGRPC(timeout(t), address, o)
	if err == nil {
		defer c.Close()
		_, err = c.SessionCreate(timeout(t), api.SessionCreateParams{})
	}
	var e *api.Error
	switch {
	case code == "" && err != nil:
		t.Errorf("%s: %s", what, err)
	case code != "" && (!errors.As(err, &e) || e.Code != code || !strings.Contains(err.Error(), text)):
		t.Errorf("%s: %v", what, err)
	}
}

func TestTLSWithToken(t *testing.T) {
	ours, theirs := newIssuer(t, "ours"), newIssuer(t, "theirs")
	server := ours.issue("server", time.Hour)
	d := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0", "--tls-cert", server.cert, "--tls-key", server.key, "--token-file", tokenFile(t)))
	address := d.GRPC(t)
	if !strings.HasPrefix(address, "grpcs://") {
		t.Fatal(address)
	}
	good := client.GRPCOptions{Token: fullToken, CAFile: ours.file}
	with := func(change func(o *client.GRPCOptions)) client.GRPCOptions {
		o := good
		change(&o)
		return o
	}
	knock(t, "token", address, good, "", "")
	knock(t, "name", address, with(func(o *client.GRPCOptions) { o.ServerName = "server" }), "", "")
	knock(t, "read", address, with(func(o *client.GRPCOptions) { o.Token = readToken }), api.CodeForbidden, "needs a token of scope full")
	knock(t, "wrong token", address, with(func(o *client.GRPCOptions) { o.Token = fullToken + "x" }), api.CodeAuthFailed, "token: is wrong")
	knock(t, "no token", address, with(func(o *client.GRPCOptions) { o.Token = "" }), api.CodeAuthFailed, "token: is required")
	knock(t, "wrong CA", address, with(func(o *client.GRPCOptions) { o.CAFile = theirs.file }), api.CodeAuthFailed, "is not trusted")
	knock(t, "no CA", address, with(func(o *client.GRPCOptions) { o.CAFile = "" }), api.CodeAuthFailed, "is not trusted")
	knock(t, "other name", address, with(func(o *client.GRPCOptions) { o.ServerName = "other" }), api.CodeAuthFailed, "is not trusted")
	knock(t, "no TLS", strings.Replace(address, "grpcs", "grpc", 1), client.GRPCOptions{Token: fullToken, ConnectTimeout: time.Second}, api.CodeRuntimeUnavailable, "daemon at grpc://")
	knock(t, "no such file", address, with(func(o *client.GRPCOptions) { o.CAFile = "/nonexistent" }), api.CodeInvalidParams, "no such file")
	knock(t, "a key is no CA", address, with(func(o *client.GRPCOptions) { o.CAFile = server.key }), api.CodeInvalidParams, "contains no PEM certificate")
	knock(t, "half a pair", address, with(func(o *client.GRPCOptions) { o.CertFile = server.cert }), api.CodeInvalidParams, "client certificate")

	// The files may be replaced while the daemon runs.
	ours.issue("server", -time.Minute)
	knock(t, "expired", address, good, api.CodeAuthFailed, "is not trusted")
	ours.issue("server", time.Hour)
	knock(t, "new", address, good, "", "")

	cli(t, nil, address, "", "is not trusted")
	cli(t, []string{"TRL_CA_FILE=" + ours.file}, address, "", "token: is required")
	cli(t, []string{"TRL_CA_FILE=" + ours.file, "TRL_AUTH_TOKEN=" + fullToken}, address, "hello\n", "")
	plain := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0", "--token-file", tokenFile(t)))
	knock(t, "TLS where there is none", strings.Replace(plain.GRPC(t), "grpc", "grpcs", 1), good, api.CodeRuntimeUnavailable, "does not speak TLS")
}

// cli runs `trl run` against an address.
func cli(t *testing.T, env []string, address, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(timeout(t), trltest.Binary(t), "--socket", address, "run", "echo hello")
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "TRL_STATE_DIR=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}, env...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if (err == nil) != (stderr == "") || out.String() != stdout || !strings.Contains(errs.String(), stderr) {
		t.Errorf("trl --socket %s: %v, %q, %q", address, err, out.String(), errs.String())
	}
}

// TestPlaceWithCertificates: sessions on another daemon that wants a certificate and a token.
func TestPlaceWithCertificates(t *testing.T) {
	ours, theirs := newIssuer(t, "ours"), newIssuer(t, "theirs")
	server, me, stranger := ours.issue("server", time.Hour), ours.issue("me", time.Hour), theirs.issue("stranger", time.Hour)
	far := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0", "--tls-cert", server.cert, "--tls-key", server.key, "--grpc-client-ca", ours.file, "--token-file", tokenFile(t)))
	c := trltest.Start(t).Client(t)
	place := api.PlaceOptions{CAFile: ours.file, CertFile: me.cert, KeyFile: me.key}
	for _, w := range []struct {
		what   string
		change func(*api.PlaceOptions)
		code   api.Code
		text   string
	}{
		{"certificate", func(*api.PlaceOptions) {}, "", ""},
		{"another name", func(o *api.PlaceOptions) { o.ServerName = "server" }, "", ""},
		{"wrong name", func(o *api.PlaceOptions) { o.ServerName = "other" }, api.CodeAuthFailed, "is not trusted"},
		{"no certificate", func(o *api.PlaceOptions) { o.CertFile, o.KeyFile = "", "" }, api.CodeAuthFailed, "refused the certificate"},
		{"stranger", func(o *api.PlaceOptions) { o.CertFile, o.KeyFile = stranger.cert, stranger.key }, api.CodeAuthFailed, "refused the certificate"},
		{"unknown CA", func(o *api.PlaceOptions) { o.CAFile = theirs.file }, api.CodeAuthFailed, "is not trusted"},
	} {
		o := place
		w.change(&o)
		s, err := c.SessionCreate(timeout(t), api.SessionCreateParams{Runtime: "trl:" + far.GRPC(t), Place: &o})
		if w.code != "" {
			testkit.WantError(t, err, w.code, w.text)
			continue
		}
		if err != nil {
			t.Errorf("%s: %s", w.what, err)
			continue
		}
		if r, err := c.ExecRun(timeout(t), api.ExecParams{SessionID: s.SessionID, Command: "echo there"}); err != nil || r.Stdout != "there\n" {
			t.Errorf("%s: %+v, %v", w.what, r, err)
		}
		if _, err := c.SessionDestroy(timeout(t), api.SessionDestroyParams{SessionID: s.SessionID}); err != nil {
			t.Error(err)
		}
	}
}

func TestTLSWithCertificates(t *testing.T) {
	ours, theirs := newIssuer(t, "ours"), newIssuer(t, "theirs")
	server, me, late := ours.issue("server", time.Hour), ours.issue("me", time.Hour), ours.issue("late", -time.Minute)
	stranger := theirs.issue("stranger", time.Hour)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	trust := func(is *issuer) {
		t.Helper()
		text, err := os.ReadFile(is.file)
		if err == nil {
			err = os.WriteFile(ca+".new", text, 0o600)
		}
		if err == nil {
			err = os.Rename(ca+".new", ca)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	trust(ours)
	d := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0", "--tls-cert", server.cert, "--tls-key", server.key, "--grpc-client-ca", ca, "--token-file", tokenFile(t)))
	address := d.GRPC(t)
	as := func(p pairFiles, token string) client.GRPCOptions {
		return client.GRPCOptions{CAFile: ours.file, CertFile: p.cert, KeyFile: p.key, Token: token}
	}
	knock(t, "certificate", address, as(me, ""), "", "")
	knock(t, "certificate and token", address, as(me, fullToken), "", "")
	knock(t, "certificate and read", address, as(me, readToken), api.CodeForbidden, "needs a token of scope full")
	knock(t, "certificate and wrong token", address, as(me, fullToken+"x"), api.CodeAuthFailed, "token: is wrong")
	knock(t, "token alone", address, as(pairFiles{}, fullToken), api.CodeAuthFailed, "refused the certificate")
	knock(t, "stranger", address, as(stranger, fullToken), api.CodeAuthFailed, "refused the certificate")
	knock(t, "expired", address, as(late, fullToken), api.CodeAuthFailed, "refused the certificate")
	cli(t, []string{"TRL_CA_FILE=" + ours.file, "TRL_CLIENT_CERT=" + me.cert, "TRL_CLIENT_KEY=" + me.key}, address, "hello\n", "")

	// A client that is no longer trusted is not accepted again, and does not try again.
	proxy := testkit.NewProxy(t, strings.TrimPrefix(address, "grpcs://"))
	c, err := client.DialGRPC(timeout(t), "grpcs://"+proxy.Address(), as(me, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f := &far{Daemon: d, proxy: proxy, client: c, near: d.Client(t)}
	r, seen := f.printer(t, client.RemoteOptions{})
	trust(theirs)
	proxy.Cut()
	if e := failed(t, r); e.Reason != client.ReasonAuthRejected {
		t.Errorf("%v", e)
	}
	still(t, f, r)
	trust(ours)
	r.Retry()
	seen.await(client.StateReconnected)
	if err := r.Write(timeout(t), []byte("in")); err != nil {
		t.Fatal(err)
	}
	expect(t, r, 0, "in")
}
