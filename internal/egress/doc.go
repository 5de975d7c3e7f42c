// Package egress is the network of a session that may reach only listed destinations: a proxy in the
// runner, which speaks HTTP and SOCKS5, decides by rules and connects on behalf of the session's programs.
//
// The proxy resolves names itself and connects to the addresses that it has checked, so an answer of
// the DNS that changes meanwhile changes nothing. Names that no rule lists are not resolved: a query
// alone could carry data out.
package egress
