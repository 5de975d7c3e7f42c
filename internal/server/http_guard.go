package server

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
)

// hostAllowed rejects a request that names another host. It finds a web page whose foreign name
// was made to point to this machine (DNS rebinding), because a browser sends the name that it
// asked for.
func (x *exchange) hostAllowed() bool {
	host := hostName(x.r.Host)
	local, _ := x.r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if isLoopback(host) || isAddress(host, local) ||
		slices.ContainsFunc(x.http.cfg.Hosts, func(allowed string) bool { return strings.EqualFold(host, hostName(allowed)) && host != "" }) {
		return true
	}
	x.complain("request for a foreign host refused", "host", shortened(x.r.Host))
	x.refuse(http.StatusMisdirectedRequest, api.Errorf(api.CodeForbidden, "host %q: is not a name of this daemon; http_hosts can add it", shortened(x.r.Host)))
	return false
}

// hostName returns the host of "host", "host:port", "[v6]" or "[v6]:port", in a form
// that can be compared; "" when it is none of them.
func hostName(hostport string) string {
	host := hostport
	if h, port, err := net.SplitHostPort(hostport); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return ""
		}
		host = h
	} else if h, ok := strings.CutPrefix(hostport, "["); ok {
		if host, ok = strings.CutSuffix(h, "]"); !ok {
			return ""
		}
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().WithZone("").String()
	}
	host = strings.TrimSuffix(host, ".")
	if strings.ContainsAny(host, ":[]@/ ") || strings.HasSuffix(host, ".") {
		return ""
	}
	return strings.ToLower(host)
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// isAddress reports whether host is the address a connection came to.
func isAddress(host string, local net.Addr) bool {
	if local == nil {
		return false
	}
	a, err := netip.ParseAddrPort(local.String())
	return err == nil && a.Addr().Unmap().WithZone("").String() == host
}

// originAllowed refuses a request of a web page that is not ours and not configured.
// What is no page has no origin.
func (x *exchange) originAllowed() bool {
	values := x.r.Header.Values("Origin")
	if len(values) == 0 {
		return true
	}
	origin := values[0]
	scheme := "http://"
	if x.r.TLS != nil {
		scheme = "https://"
	}
	switch {
	case len(values) > 1:
	case strings.EqualFold(origin, scheme+x.r.Host):
		return true
	case slices.ContainsFunc(x.http.cfg.Origins, func(o string) bool { return strings.EqualFold(o, origin) }):
		header := x.w.Header()
		header.Add("Vary", "Origin")
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", exposedHeaders)
		return true
	}
	x.complain("request of a foreign page refused", "origin", shortened(origin))
	x.refuse(http.StatusForbidden, api.Errorf(api.CodeForbidden, "origin %q: may not use this daemon; http_origins can allow it", shortened(origin)))
	return false
}

// exposedHeaders are what a foreign page may see of an answer.
const exposedHeaders = "Content-Range, ETag, Retry-After, WWW-Authenticate, Mcp-Session-Id, " +
	headerOffset + ", " + headerNextOffset + ", " + headerTotal + ", " + headerState + ", " + headerComplete + ", " + headerGap

// preflight answers the CORS preflight request of a browser. It reports whether the request was one.
func (x *exchange) preflight() bool {
	if x.r.Method != http.MethodOptions || x.r.Header.Get("Access-Control-Request-Method") == "" || x.r.Header.Get("Origin") == "" {
		return false
	}
	header := x.w.Header()
	header.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE")
	header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Last-Event-ID, Range, If-Range, "+headerKeepAlive+", "+headerTraceparent+", Mcp-Session-Id, Mcp-Protocol-Version")
	header.Set("Access-Control-Max-Age", "600")
	if x.r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		header.Set("Access-Control-Allow-Private-Network", "true")
	}
	x.w.WriteHeader(http.StatusNoContent)
	return true
}

// authorised refuses a request without a token of the needed scope. It reports whether there is one.
func (x *exchange) authorised(need Scope) bool {
	presented := x.presented()
	if len(presented) == 0 && strings.HasPrefix(x.r.URL.Path, "/v1/") && x.showsLogin() {
		return x.authorisedByLogin(need)
	}
	scope, valid := Scope(""), ""
	for _, token := range presented {
		if s := x.http.cfg.Tokens.scopeOf(token); s != "" && scope != ScopeFull {
			scope, valid, x.caller.Token = s, token, tokenName(token)
		}
	}
	switch {
	case scope.covers(need):
		x.scope = scope
		x.stops = append(x.stops, x.http.cfg.Tokens.while(valid, scope, func() { x.conn.cancel(errTokenOver) }))
		return true
	case scope != "":
		x.forbid(api.Errorf(api.CodeForbidden, "%.200s: needs a token of scope %s, this one has %s", x.r.URL.Path, need, scope))
		return false
	}
	challenge, message := `Bearer realm="trl"`, "token: is required, as Authorization: Bearer TOKEN"
	if len(presented) > 0 {
		challenge, message = challenge+`, error="invalid_token"`, "token: is wrong"
		x.complain("wrong token")
		x.http.server.audit(x.caller, auditAuth, nil, api.Errorf(api.CodeAuthFailed, "%s", message))
	}
	x.w.Header().Set("WWW-Authenticate", challenge)
	x.fail(api.Errorf(api.CodeAuthFailed, "%s", message))
	return false
}

// forbid answers a request whose caller may not use its endpoint.
func (x *exchange) forbid(cause *api.Error) {
	if m, ok := x.http.server.methods[strings.TrimPrefix(x.r.URL.Path, "/v1/")]; ok {
		x.http.server.audit(x.caller, m.Name, nil, cause)
	}
	x.fail(cause)
}

// Names of WebSocket subprotocols. A page cannot set headers of a WebSocket, so it offers its token as
// a subprotocol. It must also offer protocolName, which the server selects.
const (
	protocolName  = "trl.v1"
	protocolToken = "trl.token."
)

// presented returns the tokens that a request shows. A token in a subprotocol may be
// in base64url, because not every token can be written there.
func (x *exchange) presented() []string {
	var tokens []string
	for _, value := range x.r.Header.Values("Authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && token != "" {
			tokens = append(tokens, token)
		}
	}
	if x.r.URL.Path != "/v1/ws" {
		return tokens
	}
	for _, value := range x.r.Header.Values("Sec-WebSocket-Protocol") {
		for offer := range strings.SplitSeq(value, ",") {
			token, ok := strings.CutPrefix(strings.TrimSpace(offer), protocolToken)
			if !ok {
				continue
			}
			tokens = append(tokens, token)
			if plain, err := base64.RawURLEncoding.DecodeString(token); err == nil {
				tokens = append(tokens, string(plain))
			}
		}
	}
	return tokens
}

// complain logs a client's fault, once a minute for each address and fault, so that a rejected
// web page that keeps trying does not hide an attacker that guesses tokens.
func (x *exchange) complain(message string, args ...any) {
	if x.http.complaints.due(x.conn.peer()+" "+message, time.Now()) {
		x.log.Warn(message, args...)
	}
}

const (
	complaintPause = time.Minute
	// maxComplaints bounds how many faults are remembered. Of more nothing is logged.
	maxComplaints = 1024
)

// complaints remembers about whom something was logged, and when. It is safe for
// concurrent use.
type complaints struct {
	mu   sync.Mutex
	last map[string]time.Time // guarded by mu
}

// due reports whether something may be logged about a fault now.
func (c *complaints) due(fault string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, ok := c.last[fault]; ok && now.Sub(last) < complaintPause {
		return false
	}
	if len(c.last) >= maxComplaints {
		for a, last := range c.last {
			if now.Sub(last) >= complaintPause {
				delete(c.last, a)
			}
		}
		if len(c.last) >= maxComplaints {
			return false
		}
	}
	if c.last == nil {
		c.last = map[string]time.Time{}
	}
	c.last[fault] = now
	return true
}

// shortened bounds a text of a client for a message.
func shortened(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}
