package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// resolver finds the addresses of names: in the file hosts, then by asking the DNS servers of
// resolv.conf. It does as much of the work of package net as the proxy needs, and is much smaller.
// The files are read for each name, because they may change while the session lives.
type resolver struct {
	hosts, conf string
	port        int // of the DNS servers
	timeout     time.Duration
}

var system = resolver{hosts: "/etc/hosts", conf: "/etc/resolv.conf", port: 53, timeout: 4 * time.Second}

// The types of the questions.
const (
	typeA    = 1
	typeAAAA = 28
)

// maxConfig bounds the files.
const maxConfig = 1 << 20

// Lookup returns the addresses of a name, IPv4 first.
func (r resolver) Lookup(name string) ([]Addr, error) {
	if list := inHosts(readConfig(r.hosts), name); len(list) > 0 {
		return list, nil
	}
	c := parseConf(readConfig(r.conf))
	names := []string{name}
	if strings.Count(name, ".") < c.dots {
		for _, s := range c.search {
			if full := name + "." + s; len(full) <= 253 {
				names = append(names, full)
			}
		}
	}
	err := errNotFound
	for _, n := range names {
		var list []Addr
		if list, err = r.ask(c.servers, n); len(list) > 0 || !errors.Is(err, errNotFound) {
			return list, err
		}
	}
	return nil, err
}

func readConfig(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxConfig))
	return string(text)
}

// inHosts returns the addresses of a name in the text of the file hosts.
func inHosts(text, name string) (list []Addr) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		a, err := ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, f := range fields[1:] {
			if strings.EqualFold(strings.TrimSuffix(f, "."), name) {
				list = append(list, a)
				break
			}
		}
	}
	return list
}

// conf is what resolv.conf says.
type conf struct {
	servers []Addr
	search  []string
	dots    int // a name with fewer dots is also looked for in the domains of search
}

func parseConf(text string) conf {
	c := conf{dots: 1}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if a, err := ParseAddr(fields[1]); err == nil && len(c.servers) < 3 {
				c.servers = append(c.servers, a)
			}
		case "search", "domain":
			c.search = nil
			for _, s := range fields[1:min(len(fields), 7)] {
				if n, err := normalName(s); err == nil {
					c.search = append(c.search, n)
				}
			}
		case "options":
			for _, o := range fields[1:] {
				if n, ok := strings.CutPrefix(o, "ndots:"); ok {
					if dots, err := strconv.Atoi(n); err == nil {
						c.dots = min(max(dots, 0), 15)
					}
				}
			}
		}
	}
	if len(c.servers) == 0 {
		c.servers = []Addr{loopback4, loopback6}
	}
	return c
}

// ask asks for both kinds of addresses at once.
func (r resolver) ask(servers []Addr, name string) ([]Addr, error) {
	type answer struct {
		list []Addr
		err  error
	}
	six := make(chan answer, 1)
	go func() {
		list, err := r.askFor(servers, name, typeAAAA)
		six <- answer{list, err}
	}()
	list, err := r.askFor(servers, name, typeA)
	other := <-six
	if list = append(list, other.list...); len(list) > 0 {
		return list, nil
	}
	if errors.Is(err, errNotFound) && other.err != nil {
		err = other.err
	}
	return nil, err
}

// askFor asks one server after the other, each of them twice.
func (r resolver) askFor(servers []Addr, name string, kind uint16) (list []Addr, err error) {
	for range 2 {
		for _, s := range servers {
			list, err = r.askServer(s, name, kind)
			if err == nil || errors.Is(err, errNotFound) {
				return list, err
			}
		}
	}
	return nil, fmt.Errorf("the name could not be resolved: %w", err)
}

// askServer asks by UDP, and by TCP if the answer does not fit.
func (r resolver) askServer(server Addr, name string, kind uint16) ([]Addr, error) {
	deadline := time.Now().Add(r.timeout)
	id := uint16(rand.Uint32())
	query := newQuery(id, name, kind)
	c, err := dial(unix.SOCK_DGRAM, server, r.port, deadline)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(deadline)
	if _, err = c.Write(query); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return nil, err
		}
		list, cut, err := parseAnswer(query, buf[:n])
		if errors.Is(err, errForeign) {
			continue // not the answer to this question
		}
		if !cut {
			return list, err
		}
		return r.askStream(server, query, deadline)
	}
}

func (r resolver) askStream(server Addr, query []byte, deadline time.Time) ([]Addr, error) {
	c, err := dial(unix.SOCK_STREAM, server, r.port, deadline)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(deadline)
	if _, err = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err = io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	buf := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err = io.ReadFull(c, buf); err != nil {
		return nil, err
	}
	list, _, err := parseAnswer(query, buf)
	return list, err
}

// newQuery returns a question with recursion.
func newQuery(id uint16, name string, kind uint16) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	b = append(b, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for _, label := range strings.Split(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, kind)
	return binary.BigEndian.AppendUint16(b, 1)
}

var (
	errForeign = errors.New("the DNS server answered another question")
	errAnswer  = errors.New("the DNS server sent a malformed answer")
)

// parseAnswer returns the addresses in the answer to a query, or that the answer was cut.
func parseAnswer(query, b []byte) (list []Addr, cut bool, err error) {
	kind := binary.BigEndian.Uint16(query[len(query)-4:])
	if len(b) < len(query) || b[0] != query[0] || b[1] != query[1] || b[2]&0x80 == 0 ||
		binary.BigEndian.Uint16(b[4:]) != 1 || !strings.EqualFold(string(b[12:len(query)]), string(query[12:])) {
		return nil, false, errForeign
	}
	switch code := b[3] & 0xf; {
	case b[2]&2 != 0:
		return nil, true, nil
	case code == 3:
		return nil, false, errNotFound
	case code != 0:
		return nil, false, fmt.Errorf("the DNS server answered with error %d", code)
	}
	records := int(binary.BigEndian.Uint16(b[6:]))
	rest := b[len(query):]
	for range records {
		if rest = skipName(rest); len(rest) < 10 {
			return nil, false, errAnswer
		}
		got, class, size := binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:]), int(binary.BigEndian.Uint16(rest[8:]))
		if rest = rest[10:]; len(rest) < size {
			return nil, false, errAnswer
		}
		data := rest[:size]
		rest = rest[size:]
		switch {
		case got != kind || class != 1 || len(list) >= maxAddresses:
		case kind == typeA && size == 4:
			list = append(list, addr4([4]byte(data)))
		case kind == typeAAAA && size == 16:
			list = append(list, Addr(data))
		}
	}
	if len(list) == 0 {
		return nil, false, errNotFound
	}
	return list, false, nil
}

// skipName returns what follows a name; nil if that is cut.
func skipName(b []byte) []byte {
	for len(b) > 0 {
		n := int(b[0])
		switch {
		case n == 0:
			return b[1:]
		case n >= 0xc0: // the rest of the name is elsewhere
			return b[min(2, len(b)):]
		case n > 63 || n+1 > len(b):
			return nil
		}
		b = b[n+1:]
	}
	return nil
}
