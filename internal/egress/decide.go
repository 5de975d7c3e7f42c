package egress

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Decision is the answer to one request of a program to reach a destination.
type Decision struct {
	Host    string // as the program named it, in the form in which names are compared
	Port    int
	Allowed bool
	Rule    string // the rule that allows it
	Reason  string // why it is refused, or could not be reached
}

// errNotFound reports that a name has no address.
var errNotFound = errors.New("the name has no address")

// maxAddresses bounds the addresses of one name.
const maxAddresses = 16

// decide finds out whether a destination may be reached, and by which addresses. It resolves only names that
// a rule lists. The addresses of an allowed decision are empty if the name could not be resolved;
// Reason then says why.
func (p *Proxy) decide(host string, port int) (d Decision, addrs []Addr) {
	d = Decision{Host: host, Port: port}
	if port == 0 {
		d.Reason = "port 0 is not valid"
		return d, nil
	}
	if a, err := ParseAddr(host); err == nil {
		d.Host = a.String()
		return p.check(d, Rule{}, []Addr{a})
	}
	name, err := normalName(host)
	if err != nil {
		d.Host, d.Reason = printable(host), "the name "+err.Error()
		return d, nil
	}
	d.Host = name
	if name == "localhost" { // never a question for the DNS
		return p.check(d, Rule{}, []Addr{loopback4, loopback6})
	}
	rule, ok := p.rules.named(name, port)
	if !ok {
		d.Reason = "no rule allows it"
		return d, nil
	}
	addrs, err = p.lookup(name)
	if err == nil && len(addrs) == 0 {
		err = errNotFound
	}
	if err != nil {
		d.Allowed, d.Rule, d.Reason = true, rule.text, err.Error()
		return d, nil
	}
	return p.check(d, rule, addrs[:min(len(addrs), maxAddresses)])
}

// check keeps the addresses that may be reached. A name that a rule lists may have public addresses; all
// others must be listed themselves.
func (p *Proxy) check(d Decision, rule Rule, addrs []Addr) (Decision, []Addr) {
	var good []Addr
	for _, a := range addrs {
		within, what := specialBlock(a)
		if what == "" && p.own(a) { // its services may trust clients on this machine
			within, what = block{a, 128}, "local"
		}
		listed, ok := p.rules.addressed(a, d.Port, within, what != "")
		switch {
		case ok:
			d.Rule = listed.text
		case rule.text != "" && what == "":
		case what != "":
			d.Reason = fmt.Sprintf("%s is %s %s address, which a rule must name", a, article(what), what)
			continue
		default:
			d.Reason = "no rule allows it"
			continue
		}
		if !slices.Contains(good, a) {
			good = append(good, a)
		}
	}
	if len(good) == 0 {
		return d, nil
	}
	if rule.text != "" {
		d.Rule = rule.text
	}
	d.Allowed, d.Reason = true, ""
	return d, good
}

func article(word string) string {
	if strings.ContainsRune("aeiou", rune(word[0])) {
		return "an"
	}
	return "a"
}

// printable returns text of a program for a person, bounded.
func printable(s string) string {
	b := []byte(s[:min(len(s), 255)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
