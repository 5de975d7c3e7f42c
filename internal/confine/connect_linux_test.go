package confine_test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/confine"
)

// TestConnectAttempts is the program of TestConnectPort: it prints which ways out are open.
func TestConnectAttempts(t *testing.T) {
	if flag.NArg() != 2 {
		t.Skip("is a program for TestConnectPort")
	}
	connect := func(port string, flags int) error {
		number, _ := strconv.Atoi(port)
		to := &unix.SockaddrInet4{Port: number, Addr: [4]byte{127, 0, 0, 1}}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if flags != 0 {
			return unix.Sendto(fd, []byte("x"), flags, to)
		}
		return unix.Connect(fd, to)
	}
	socket := func(family, kind, protocol int) error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	bind := func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	for _, a := range []struct {
		name string
		err  error
	}{
		{"proxy", connect(flag.Arg(0), 0)},
		{"unix", socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)},
		{"other", connect(flag.Arg(1), 0)},
		{"fastopen", connect(flag.Arg(1), unix.MSG_FASTOPEN)},
		{"bind", bind()},
		{"udp", socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)},
		{"udp6", socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)},
		{"multipath", socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)},
		{"sctp", socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)},
		{"raw", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{"packet", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
	} {
		if a.err == nil {
			fmt.Println(a.name)
		}
	}
}

// Without a network namespace, only TCP to one port is left of the internet.
func TestConnectPort(t *testing.T) {
	version := confine.LandlockVersion()
	if version < 4 {
		t.Skip("needs Landlock 4")
	}
	var ports []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	number, _ := strconv.Atoi(ports[0])
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &confine.Confinement{Isolation: &confine.Isolation{
		Landlock: version, ConnectPort: number, Families: []int{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK},
	}}
	text, err := run(t, c, self, "-test.run=^TestConnectAttempts$", "--", ports[0], ports[1])
	if open := strings.TrimSuffix(text, "PASS\n"); err != nil || open != "proxy\nunix\n" {
		t.Errorf("open: %q, %v", open, err)
	}
}
