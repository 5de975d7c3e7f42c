package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/login"
	"github.com/trl-dev/trl/internal/version"
)

const (
	// headerKey carries the key of a login; a WebSocket offers it as a subprotocol.
	headerKey   = "X-Trl-Key"
	protocolKey = "trl.key."
	// maxCookies is how many cookies of our name are tried. Every other port of the host can set one.
	maxCookies = 8
)

// errLoginOver ends the connections of a login that was revoked.
var errLoginOver = api.Errorf(api.CodeAuthFailed, "login: is over; `trl open` makes a new one")

// errShareOver ends the connections of viewers whose share was revoked or has expired.
var errShareOver = api.Errorf(api.CodeForbidden, "share: was revoked, has expired, or was made with a token that was removed; its viewers need a new link")

// ownOrigin returns the origin of the pages that this daemon serves to the caller.
func (x *exchange) ownOrigin() string {
	if x.r.TLS != nil {
		return "https://" + x.r.Host
	}
	return "http://" + x.r.Host
}

// fromOwnPage reports whether a script of our own page made the request. The headers that
// the browser sets tell: a request of a page has an Origin, or a Sec-Fetch-Site of same-origin.
func (x *exchange) fromOwnPage() bool {
	origin, site := x.r.Header.Values("Origin"), x.r.Header.Values("Sec-Fetch-Site")
	if len(site) > 1 || len(site) == 1 && site[0] != "same-origin" {
		return false
	}
	if len(origin) == 0 {
		return len(site) == 1 && (x.r.Method == http.MethodGet || x.r.Method == http.MethodHead)
	}
	return len(origin) == 1 && strings.EqualFold(origin[0], x.ownOrigin())
}

// needOwnPage refuses a request of anything but our own page.
func (x *exchange) needOwnPage() bool {
	if x.fromOwnPage() {
		return true
	}
	x.complain("request with a login, but not of the console's page, refused")
	x.refuse(http.StatusForbidden, api.Errorf(api.CodeForbidden, "login: is accepted only from the console's own page, whose origin is %s", shortened(x.ownOrigin())))
	return false
}

// cookieName returns the name of our cookie. It has the port, because a browser gives the cookies
// of a host to all of its ports, and two daemons must not overwrite each other's.
func (x *exchange) cookieName() string {
	_, port, err := net.SplitHostPort(x.r.Host)
	if x.r.TLS != nil {
		if err != nil {
			port = "443"
		}
		return "__Host-trl-" + port
	}
	if err != nil {
		port = "80"
	}
	return "trl-" + port
}

func (x *exchange) setCookie(value string, age time.Duration) {
	http.SetCookie(x.w, &http.Cookie{
		Name: x.cookieName(), Value: value, Path: "/", MaxAge: int(age.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: x.r.TLS != nil,
	})
}

// key returns the key that a request shows, "" for none.
func (x *exchange) key() string {
	if key := x.r.Header.Get(headerKey); key != "" {
		return key
	}
	if x.r.URL.Path != "/v1/ws" {
		return ""
	}
	for _, value := range x.r.Header.Values("Sec-WebSocket-Protocol") {
		for offer := range strings.SplitSeq(value, ",") {
			if key, ok := strings.CutPrefix(strings.TrimSpace(offer), protocolKey); ok {
				return key
			}
		}
	}
	return ""
}

// showsLogin reports whether a request shows a part of a login.
func (x *exchange) showsLogin() bool {
	return x.http.cfg.Logins != nil && (x.key() != "" || len(x.r.CookiesNamed(x.cookieName())) > 0)
}

// authorisedByLogin refuses a request without a valid login of the needed scope. It reports whether
// there is one. The end of the login ends the connection.
func (x *exchange) authorisedByLogin(need Scope) bool {
	if !x.needOwnPage() {
		return false
	}
	l, ok := x.login()
	if !ok {
		x.fail(errLoginOver)
		return false
	}
	if !Scope(l.Scope).covers(need) {
		x.caller.LoginID, x.caller.ShareID = l.ID, l.ShareID
		x.forbid(api.Errorf(api.CodeForbidden, "%.200s: needs a login of scope %s, this one has %s", x.r.URL.Path, need, l.Scope))
		return false
	}
	x.adopt(l)
	return true
}

// login returns the login that the cookie and the key of a request are of.
func (x *exchange) login() (login.Login, bool) {
	cookies := x.r.CookiesNamed(x.cookieName())
	for _, c := range cookies[:min(len(cookies), maxCookies)] {
		if l, err := x.http.cfg.Logins.Check(c.Value, x.key()); err == nil {
			return l, true
		}
	}
	return login.Login{}, false
}

// logIn answers POST /web/login: a code, or a token typed by hand, becomes a login.
func (x *exchange) logIn() {
	if !x.needOwnPage() {
		return
	}
	var p struct{ Code, Token string }
	if !x.readJSON(&p) {
		return
	}
	logins := x.http.cfg.Logins
	if l, ok := x.login(); ok && p.Code != "" && logins.Joins(l, p.Code) {
		// The browser can see it already. A new login would replace the one that it has.
		x.json(map[string]any{"key": x.key(), "login_id": l.ID, "scope": l.Scope, "expires_at": l.ExpiresAt})
		return
	}
	by := login.Browser{Name: x.r.UserAgent(), Address: x.conn.peer()}
	var got login.Granted
	var err error
	switch {
	case p.Code != "":
		got, err = logins.Redeem(p.Code, by)
	case !logins.MayTry(by.Address):
		err = login.ErrTooMany
	default:
		scope, digest := x.http.cfg.Tokens.Find(p.Token)
		if scope == "" {
			logins.Wrong(by.Address)
			x.complain("wrong token")
			x.failLogin(http.StatusUnauthorized, api.Errorf(api.CodeAuthFailed, "token: is wrong"))
			return
		}
		got, err = logins.Exchange(string(scope), digest, by)
	}
	switch {
	case errors.Is(err, login.ErrTooMany):
		x.failLogin(http.StatusTooManyRequests, api.Errorf(api.CodeAuthFailed, "login: %s", err))
		return
	case errors.Is(err, login.ErrViewers):
		x.failLogin(http.StatusForbidden, api.Errorf(api.CodeForbidden, "login: %s", err))
		return
	case errors.Is(err, login.ErrCode):
		x.complain("wrong code")
		x.failLogin(http.StatusUnauthorized, api.Errorf(api.CodeAuthFailed, "login: %s; `trl open` makes a new one", err))
		return
	case err != nil:
		x.fail(api.AsError(err))
		return
	}
	x.log.Info("browser logged in", "login_id", got.ID, "scope", got.Scope)
	x.http.server.auditLogin(x.caller, "web.login", got.Login)
	x.setCookie(got.Cookie, time.Until(got.ExpiresAt))
	x.json(map[string]any{"key": got.Key, "login_id": got.ID, "scope": got.Scope, "expires_at": got.ExpiresAt})
}

// auditAuth stands for a method in the record of a wrong token.
const auditAuth = "auth"

// failLogin answers a login that is refused.
func (x *exchange) failLogin(status int, cause *api.Error) {
	x.http.server.audit(x.caller, "web.login", nil, cause)
	x.refuse(status, cause)
}

// auditLogin records that a login has begun or ended. A viewer with the link of a share can log in and
// out as often as it likes, so these are recorded once a minute for each address.
func (s *Server) auditLogin(caller *api.Caller, what string, l login.Login) {
	if s.cfg.Audit == nil || l.ShareID != "" && !s.audited.due(fmt.Sprint(caller.Address, l.ShareID, what), time.Now()) {
		return
	}
	s.cfg.Audit(caller, what, nil, l.ID, nil)
}

// logOut answers POST /web/logout.
func (x *exchange) logOut() {
	if !x.needOwnPage() {
		return
	}
	x.setCookie("", -time.Second)
	if l, ok := x.login(); ok {
		if _, err := x.http.cfg.Logins.Revoke(l.ID); err != nil {
			x.fail(api.AsError(err))
			return
		}
		x.http.server.auditLogin(x.caller, "web.logout", l)
	}
	x.json(map[string]any{})
}

// me answers /web/me: who is logged in, and which version of the page this daemon has.
func (x *exchange) me() {
	if !x.authorisedByLogin(ScopeRead) {
		return
	}
	l, _ := x.login()
	host, _ := os.Hostname()
	x.json(map[string]any{
		"only": l.Only, "login_id": l.ID, "scope": l.Scope, "expires_at": l.ExpiresAt, "version": version.Version, "assets": thePage().digest, "host": host,
	})
}

// ticket answers POST /web/ticket: an address at which the browser can save output as a file. A
// link has no key, so it is valid once, for half a minute, with the cookie of this login.
func (x *exchange) ticket() {
	if !x.authorisedByLogin(ScopeRead) {
		return
	}
	var p struct{ Path, Filename string }
	if !x.readJSON(&p) {
		return
	}
	u, err := url.Parse(p.Path)
	if err == nil {
		if e, ok := x.http.find(u.Path); !ok || e.allow != get || e.need != ScopeRead || !strings.HasPrefix(u.Path, "/v1/") {
			err = errors.New("is not a path for downloads")
		}
	}
	if err != nil {
		x.fail(api.Errorf(api.CodeInvalidParams, "path %.200q: cannot be downloaded", p.Path))
		return
	}
	l, _ := x.login()
	x.json(map[string]any{"url": "/web/get/" + x.http.cfg.Logins.Ticket(l.ID, p.Path, p.Filename)})
}

// download answers GET /web/get/TICKET. What a program wrote is never shown in our origin, only saved.
func (x *exchange) download(ticket string) {
	if site := x.r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		x.refuse(http.StatusForbidden, api.Errorf(api.CodeForbidden, "download: is accepted only from a link on the console's own page"))
		return
	}
	for _, c := range x.r.CookiesNamed(x.cookieName()) {
		l, path, filename, err := x.http.cfg.Logins.Download(ticket, c.Value)
		if err != nil {
			continue
		}
		u, err := url.Parse(path)
		e, ok := x.http.find(u.Path)
		if err != nil || !ok {
			break
		}
		x.adopt(l)
		x.guardPage("default-src 'none'; sandbox")
		x.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": filename}))
		x.r.URL = u
		e.serve(x)
		return
	}
	x.fail(errLoginOver)
}

// adopt gives the request the rights of a login. The end of the login ends the connection.
func (x *exchange) adopt(l login.Login) {
	x.scope, x.only = Scope(l.Scope), (*share)(l.Only)
	x.caller.LoginID, x.caller.ShareID = l.ID, l.ShareID
	x.endWith(l)
}

// endWith ends the connection of this request if the login ends before the request.
func (x *exchange) endWith(l login.Login) {
	over := func() {
		why := errLoginOver
		if l.ShareID != "" && !x.http.cfg.Logins.HasShare(l.ShareID) {
			why = errShareOver // and not the login of this viewer alone
		}
		x.conn.cancel(why)
	}
	x.stops = append(x.stops, context.AfterFunc(l.Context, over))
	if l.Token != "" {
		x.stops = append(x.stops, x.http.cfg.Tokens.whileDigest(l.Token, Scope(l.Scope), over))
	}
}

// readJSON reads a small body. If it returns false, it has answered the request.
func (x *exchange) readJSON(p any) bool {
	if !x.jsonExpected() {
		return false
	}
	body, taken, ok := x.readBody()
	defer x.http.server.budget.Return(taken)
	if !ok {
		return false
	}
	if err := json.Unmarshal(body, p); err != nil {
		x.fail(api.Errorf(api.CodeInvalidParams, "body: must be a JSON object"))
		return false
	}
	return true
}

func (x *exchange) json(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		x.fail(api.AsError(err))
		return
	}
	x.answer(jsonType, text)
}
