package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// dnsServer answers by UDP and TCP with what answer returns for a question.
func dnsServer(t *testing.T, answer func(name string, kind uint16, stream bool) (code byte, cut bool, records [][]byte)) (port int) {
	t.Helper()
	var udp *net.UDPConn
	var tcp *net.TCPListener
	for tcp == nil { // a port that is free for both
		var err error
		if udp, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			t.Fatal(err)
		}
		port = udp.LocalAddr().(*net.UDPAddr).Port
		if tcp, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}); err != nil {
			udp.Close()
		}
	}
	reply := func(q []byte, stream bool) []byte {
		var labels []string
		for b := q[12:]; b[0] != 0; b = b[b[0]+1:] {
			labels = append(labels, string(b[1:b[0]+1]))
		}
		code, cut, records := answer(strings.Join(labels, "."), binary.BigEndian.Uint16(q[len(q)-4:]), stream)
		b := append(slices.Clone(q[:2]), 0x81, 0x80|code, 0, 1, 0, byte(len(records)), 0, 0, 0, 0)
		if cut {
			b[2] |= 2
		}
		b = append(b, q[12:]...)
		for _, r := range records {
			b = append(b, r...)
		}
		return b
	}
	var running sync.WaitGroup
	running.Go(func() {
		buf := make([]byte, 512)
		for {
			n, from, err := udp.ReadFromUDP(buf)
			if err != nil {
				return
			}
			b := reply(buf[:n], false)
			foreign := append([]byte{b[0] ^ 1}, b[1:]...)
			_, _ = udp.WriteToUDP(foreign, from) // the wrong id
			_, _ = udp.WriteToUDP(b, from)
		}
	})
	running.Go(func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			size := make([]byte, 2)
			_, _ = io.ReadFull(c, size)
			q := make([]byte, binary.BigEndian.Uint16(size))
			_, _ = io.ReadFull(c, q)
			b := reply(q, true)
			_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
			c.Close()
		}
	})
	t.Cleanup(func() { udp.Close(); tcp.Close(); running.Wait() })
	return port
}

func record(kind uint16, data ...byte) []byte {
	b := []byte{0xc0, 12, byte(kind >> 8), byte(kind), 0, 1, 0, 0, 0, 60, 0, byte(len(data))}
	return append(b, data...)
}

func TestResolver(t *testing.T) {
	alias, six, seven := record(5, 1, 'x', 0), Addr{15: 6}, Addr{15: 7}
	port := dnsServer(t, func(name string, kind uint16, stream bool) (byte, bool, [][]byte) {
		switch {
		case name == "both.example" && kind == typeA:
			return 0, false, [][]byte{alias, record(typeA, 192, 0, 2, 1), record(typeA, 192, 0, 2, 2)}
		case name == "both.example":
			return 0, false, [][]byte{alias, record(typeAAAA, seven[:]...)}
		case name == "six.example" && kind == typeAAAA:
			return 0, false, [][]byte{record(typeAAAA, six[:]...)}
		case name == "six.example":
			return 0, false, nil
		case name == "large.example" && !stream:
			return 0, true, nil
		case name == "large.example" && kind == typeA:
			return 0, false, [][]byte{record(typeA, 192, 0, 2, 3)}
		case name == "db.search.example" && kind == typeA:
			return 0, false, [][]byte{record(typeA, 10, 0, 0, 3)}
		case name == "broken.example":
			return 2, false, nil
		case name == "cut.example":
			return 0, false, [][]byte{{0xc0}}
		}
		return 3, false, nil
	})
	dir := t.TempDir()
	r := resolver{hosts: filepath.Join(dir, "hosts"), conf: filepath.Join(dir, "resolv.conf"), port: port, timeout: time.Minute}
	for path, text := range map[string]string{
		r.hosts: "# comment\n10.0.0.9 Box box.example # x\n::9 box\nbad box\n",
		r.conf:  "nameserver 127.0.0.1\nsearch search.example\noptions ndots:2\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"both.example": "192.0.2.1 192.0.2.2 ::7", "six.example": "::6", "large.example": "192.0.2.3", "db": "10.0.0.3",
		"box": "10.0.0.9 ::9", "box.example": "10.0.0.9", "none.example": "", "broken.example": "error", "cut.example": "error",
	} {
		list, err := r.Lookup(name)
		var texts []string
		for _, a := range list {
			texts = append(texts, a.String())
		}
		got := strings.Join(texts, " ")
		if err != nil && !errors.Is(err, errNotFound) {
			got = "error"
		}
		if got != want || (got == "") != errors.Is(err, errNotFound) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}
