package egress

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Rule is one entry of the list of allowed destinations.
type Rule struct {
	text  string
	name  string // an exact name, or a suffix that begins with a dot; "." for every name
	block block  // without a name
	ports [][2]int
}

// String returns the rule as it was written.
func (r Rule) String() string { return r.text }

// Rules are the destinations that a session may reach.
type Rules []Rule

// ParseRules reads the rules of a session.
func ParseRules(list []string) (Rules, error) {
	var rules Rules
	for _, text := range list {
		r, err := ParseRule(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		rules = append(rules, r...)
	}
	return rules, nil
}

// ParseRule reads one entry: a name, *.name for the names below it, * for every public destination, an
// address, or an address with the length of its prefix; then, if wanted, a colon and a port or a range
// of ports, or * for every port. Without a port the rule is for the ports 80 and 443. IPv6 with a port
// is in brackets. The name localhost means both addresses of the loopback,
// so it makes two rules.
func ParseRule(text string) ([]Rule, error) {
	if strings.Contains(text, "://") {
		return nil, errors.New("is a URL; a rule is a host and optionally a port")
	}
	host, port, err := cutPort(text)
	if err != nil {
		return nil, err
	}
	r := Rule{text: text}
	if r.ports, err = parsePorts(port); err != nil {
		return nil, err
	}
	if host == "" {
		return nil, errors.New("has no host")
	}
	if strings.Contains(host, "/") || strings.Contains(host, ":") {
		r.block, err = parseBlock(host)
		return []Rule{r}, err
	}
	if a, err := ParseAddr(host); err == nil {
		r.block = block{a, 128}
		return []Rule{r}, nil
	}
	if host == "*" {
		r.name = "."
		return []Rule{r}, nil
	}
	host, below := strings.CutPrefix(host, "*.")
	if strings.Contains(host, "*") {
		return nil, errors.New("a * can only be the whole first label, as in *.example.org")
	}
	name, err := normalName(host)
	if err != nil {
		return nil, err
	}
	if name == "localhost" && !below {
		four, six := r, r
		four.block, six.block = block{loopback4, 128}, block{loopback6, 128}
		return []Rule{four, six}, nil
	}
	if below {
		name = "." + name
	}
	r.name = name
	return []Rule{r}, nil
}

var loopback4, loopback6 = addr4([4]byte{127, 0, 0, 1}), Addr{15: 1}

// cutPort separates the host of a rule or of a request from the port behind it, which may be missing.
func cutPort(s string) (host, port string, err error) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		host, rest, ok = strings.Cut(rest, "]")
		if !ok || rest != "" && (rest[0] != ':' || rest == ":") || !strings.Contains(host, ":") {
			return "", "", errors.New("has brackets that are not those of an IPv6 address")
		}
		return host, strings.TrimPrefix(rest, ":"), nil
	}
	if strings.Count(s, ":") != 1 {
		return s, "", nil // none, or IPv6 without brackets
	}
	host, port, _ = strings.Cut(s, ":")
	if port == "" {
		return "", "", errors.New("has a colon without a port")
	}
	return host, port, nil
}

func parsePorts(s string) ([][2]int, error) {
	switch s {
	case "":
		return [][2]int{{80, 80}, {443, 443}}, nil
	case "*":
		return [][2]int{{1, 65535}}, nil
	}
	low, high, ranged := strings.Cut(s, "-")
	from, ok := number(low, 65535)
	to, okTo := from, true
	if ranged {
		to, okTo = number(high, 65535)
	}
	if !ok || !okTo || from == 0 || to < from {
		return nil, fmt.Errorf("%q is not a port from 1 to 65535, a range of them, or * for every port", s)
	}
	return [][2]int{{from, to}}, nil
}

// normalName returns a name in the form in which names are compared: lower case, without the dot at
// the end, in ASCII.
func normalName(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	labels := strings.Split(s, ".")
	for i, l := range labels {
		for _, c := range l {
			if c >= 0x80 {
				l = "xn--" + punycode(strings.Map(unicode.ToLower, l))
				break
			}
		}
		l = strings.ToLower(l)
		if l == "" || len(l) > 63 {
			return "", errors.New("has an empty label or one of more than 63 characters")
		}
		if strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", errors.New("has a character that a name cannot have")
		}
		labels[i] = l
	}
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' {
		return "", errors.New("ends in a number like an address, but is not one in the usual form")
	}
	if s = strings.Join(labels, "."); len(s) > 253 {
		return "", errors.New("has more than 253 characters")
	}
	return s, nil
}

// punycode encodes a label that is not ASCII (RFC 3492). Nothing else is mapped, so a name that is
// written in an unusual form does not exist.
func punycode(label string) string {
	const base, tMin, tMax, skew, damp = 36, 1, 26, 38, 700
	n, delta, bias := rune(128), 0, 72
	input := []rune(label)
	if len(input) > 63 {
		return label // is too long in any case
	}
	var out []byte
	for _, c := range input {
		if c < 0x80 {
			out = append(out, byte(c))
		}
	}
	basic := len(out)
	done := basic
	if basic > 0 {
		out = append(out, '-')
	}
	for done < len(input) {
		next := rune(unicode.MaxRune + 1)
		for _, c := range input {
			if c >= n {
				next = min(next, c)
			}
		}
		delta += int(next-n) * (done + 1)
		n = next
		for _, c := range input {
			if c < n {
				delta++
			}
			if c != n {
				continue
			}
			q := delta
			for k := base; ; k += base {
				t := min(max(k-bias, tMin), tMax)
				if q < t {
					out = append(out, digit(q))
					break
				}
				out = append(out, digit(t+(q-t)%(base-t)))
				q = (q - t) / (base - t)
			}
			if done == basic {
				delta /= damp
			} else {
				delta /= 2
			}
			delta += delta / (done + 1)
			k := 0
			for ; delta > (base-tMin)*tMax/2; k += base {
				delta /= base - tMin
			}
			bias = k + (base-tMin+1)*delta/(delta+skew)
			delta = 0
			done++
		}
		delta++
		n++
	}
	return string(out)
}

func digit(n int) byte {
	if n < 26 {
		return byte('a' + n)
	}
	return byte('0' + n - 26)
}

func (r Rule) hasPort(port int) bool {
	return slices.ContainsFunc(r.ports, func(p [2]int) bool { return p[0] <= port && port <= p[1] })
}

// named returns the first rule that lists a name with a port.
func (rs Rules) named(name string, port int) (Rule, bool) {
	for _, r := range rs {
		if r.hasPort(port) && r.name != "" &&
			(r.name == "." || r.name == name || r.name[0] == '.' && strings.HasSuffix(name, r.name)) {
			return r, true
		}
	}
	return Rule{}, false
}

// addressed returns the first rule that lists an address with a port. A special address is
// listed only by a rule that is as narrow as its block: 0.0.0.0/0 does not list 10.0.0.1.
func (rs Rules) addressed(a Addr, port int, within block, special bool) (Rule, bool) {
	for _, r := range rs {
		switch {
		case !r.hasPort(port):
		case r.name == "" && r.block.contains(a) && (!special || r.block.bits >= within.bits):
			return r, true
		case r.name == "." && !special:
			return r, true
		}
	}
	return Rule{}, false
}

// Loopback reports whether a rule lists an address of the loopback.
func (rs Rules) Loopback() bool {
	for _, r := range rs {
		if _, what := specialBlock(r.block.addr); r.name == "" && what == "loopback" && r.block.bits >= 96 {
			return true
		}
	}
	return false
}
