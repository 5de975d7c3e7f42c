package egress

import (
	"errors"
	"strconv"
	"strings"
)

// Addr is an IP address. An IPv4 address and the IPv6 address that maps it are the same Addr.
//
// The package has its own type, because net/netip would add 86 KB to the runner.
type Addr [16]byte

// v4Prefix begins every IPv4 address.
var v4Prefix = [12]byte{10: 0xff, 11: 0xff}

// Is4 reports whether a is an IPv4 address.
func (a Addr) Is4() bool { return [12]byte(a[:12]) == v4Prefix }

func addr4(b [4]byte) (a Addr) {
	copy(a[:], v4Prefix[:])
	copy(a[12:], b[:])
	return a
}

var errAddr = errors.New("not an IP address")

// ParseAddr reads an address in its usual form: four decimal numbers without leading zeros, or
// IPv6 without brackets and zone. Other forms of IPv4 that some programs take, such as 127.1,
// 0x7f000001 and 0177.0.0.1, are errors.
func ParseAddr(s string) (Addr, error) {
	if !strings.Contains(s, ":") {
		b, err := parse4(s)
		return addr4(b), err
	}
	return parse6(s)
}

func parse4(s string) (b [4]byte, err error) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 {
		return b, errAddr
	}
	for i, p := range parts {
		n, ok := number(p, 255)
		if !ok {
			return b, errAddr
		}
		b[i] = byte(n)
	}
	return b, nil
}

// number reads a decimal number without sign and leading zeros.
func number(s string, most int) (int, bool) {
	if s == "" || len(s) > 5 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, n <= most
}

func parse6(s string) (a Addr, err error) {
	left, right, short := strings.Cut(s, "::")
	if !short {
		if n, ok := groups(left, a[:]); !ok || n != 16 {
			return a, errAddr
		}
		return a, nil
	}
	var tail Addr
	n, okLeft := groups(left, a[:])
	m, okRight := groups(right, tail[:])
	if !okLeft || !okRight || n+m > 14 {
		return Addr{}, errAddr
	}
	copy(a[16-m:], tail[:m])
	return a, nil
}

// groups reads groups of IPv6, of which the last may be an IPv4 address, and returns their length.
func groups(s string, b []byte) (n int, ok bool) {
	if s == "" {
		return 0, true
	}
	parts := strings.Split(s, ":")
	for i, p := range parts {
		if i == len(parts)-1 && strings.Contains(p, ".") && n+4 <= len(b) {
			v4, err := parse4(p)
			copy(b[n:], v4[:])
			return n + 4, err == nil
		}
		v, err := strconv.ParseUint(p, 16, 16)
		if err != nil || len(p) > 4 || n+2 > len(b) {
			return 0, false
		}
		b[n], b[n+1] = byte(v>>8), byte(v)
		n += 2
	}
	return n, true
}

// String returns the address in its usual form.
func (a Addr) String() string {
	if a.Is4() {
		s := strconv.Itoa(int(a[12]))
		for _, b := range a[13:] {
			s += "." + strconv.Itoa(int(b))
		}
		return s
	}
	group := func(i int) uint64 { return uint64(a[2*i])<<8 | uint64(a[2*i+1]) }
	from, to := 0, 0 // the longest run of two or more groups of zero
	for i := 0; i < 8; i++ {
		j := i
		for j < 8 && group(j) == 0 {
			j++
		}
		if j-i >= 2 && j-i > to-from {
			from, to = i, j
		}
		i = max(i, j-1)
	}
	var s strings.Builder
	for i := 0; i < 8; i++ {
		if i == from && to > from {
			s.WriteString("::")
			i = to - 1
			continue
		}
		if i > 0 && i != to {
			s.WriteByte(':')
		}
		s.WriteString(strconv.FormatUint(group(i), 16))
	}
	return s.String()
}

// block is a range of addresses. The bits of an IPv4 block count from the beginning of the 128.
type block struct {
	addr Addr
	bits int
}

// contains reports whether an address is in the block. A block of IPv6 has no IPv4 address.
func (b block) contains(a Addr) bool {
	if a.Is4() != b.addr.Is4() {
		return false
	}
	for i := range a {
		n := min(max(b.bits-8*i, 0), 8)
		if mask := byte(0xff) << (8 - n); (a[i]^b.addr[i])&mask != 0 {
			return false
		}
	}
	return true
}

// parseBlock reads an address, or an address with the length of its prefix.
func parseBlock(s string) (b block, err error) {
	text, length, has := strings.Cut(s, "/")
	if b.addr, err = ParseAddr(text); err != nil {
		return b, err
	}
	b.bits = 128
	if !has {
		return b, nil
	}
	least := 0
	if !strings.Contains(text, ":") {
		least = 96
	}
	n, ok := number(length, 128-least)
	if !ok {
		return b, errors.New("the length of the prefix must be from 0 to " + strconv.Itoa(128-least))
	}
	b.bits = least + n
	for i := range b.addr { // the bits behind the prefix mean nothing
		keep := min(max(b.bits-8*i, 0), 8)
		b.addr[i] &= byte(0xff) << (8 - keep)
	}
	return b, nil
}

// special lists the addresses that are not those of a machine on the public network: they are
// refused unless a rule lists them.
var special = []struct {
	what   string
	blocks []string
}{
	{"loopback", []string{"127.0.0.0/8", "::1"}},
	{"link-local", []string{"169.254.0.0/16", "fe80::/10", "fec0::/10"}}, // with the metadata of most clouds
	{"private", []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"}},
	{"cloud metadata", []string{"168.63.129.16"}},
	{"multicast", []string{"224.0.0.0/4", "ff00::/8"}},
	{"unspecified", []string{"0.0.0.0/8", "::"}},
	// Addresses that stand for an IPv4 address: ::/96, SIIT, NAT64, 6to4, and Teredo among 2001::/23.
	{"embedded IPv4", []string{"::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/23"}},
	{"reserved", []string{
		"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16",
	}},
}

// specialBlock returns the special block that has an address, and what it is; "" for a public address.
func specialBlock(a Addr) (block, string) {
	for _, s := range special {
		for _, text := range s.blocks {
			if b, err := parseBlock(text); err == nil && b.contains(a) {
				return b, s.what
			}
		}
	}
	return block{}, ""
}
