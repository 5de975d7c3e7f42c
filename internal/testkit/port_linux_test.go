package testkit_test

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/internal/testkit"
)

// TestRefusedAddressIsKept: no other socket gets the port of a proxy that refuses connections.
func TestRefusedAddressIsKept(t *testing.T) {
	p := testkit.NewProxy(t, echo(t, "one"))
	p.Refuse()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	at := netip.MustParseAddrPort(p.Address())
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}); err != syscall.EADDRINUSE {
		t.Errorf("another socket can have %s: %v", at, err)
	}
	p.Listen()
	dial(t, p, "one")
}
