package server

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/web"
)

// console is the page for browsers: the embedded files, as they are sent.
type console struct {
	digest string // of all files, in their addresses: a file never changes under its address
	index  []byte
	files  map[string]*asset
}

// asset is one file of the page.
type asset struct {
	plain []byte
	kind  string
	zip   func() []byte // the file compressed; made once, when it is first asked for
}

// thePage returns the console. It is made when the first browser asks for it.
var thePage = sync.OnceValue(func() *console {
	all := web.Files()
	p := &console{digest: web.Digest(all), index: all["index.html"], files: map[string]*asset{}}
	for name, plain := range all {
		a := &asset{plain: plain, kind: mime.TypeByExtension(path.Ext(name))}
		if path.Ext(name) == ".webmanifest" {
			a.kind = "application/manifest+json"
		}
		a.zip = sync.OnceValue(func() []byte {
			var b bytes.Buffer
			w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
			_, _ = w.Write(plain)
			_ = w.Close()
			return b.Bytes()
		})
		p.files[name] = a
	}
	delete(p.files, "index.html")
	return p
})

// pageEndpoint returns the endpoint of a path of the console that needs no login.
func (h *HTTP) pageEndpoint(path string) (endpoint, bool) {
	switch path {
	case "/":
		return endpoint{allow: get, early: true, serve: (*exchange).servePage}, true
	case "/web/login":
		return endpoint{allow: post, serve: (*exchange).logIn}, true
	case "/web/logout":
		return endpoint{allow: post, serve: (*exchange).logOut}, true
	case "/web/me":
		return endpoint{allow: "GET, HEAD, POST", serve: (*exchange).me}, true
	case "/web/ticket":
		return endpoint{allow: post, serve: (*exchange).ticket}, true
	}
	if ticket, ok := strings.CutPrefix(path, "/web/get/"); ok {
		return endpoint{allow: get, serve: func(x *exchange) { x.download(ticket) }}, true
	}
	if rest, ok := strings.CutPrefix(path, "/assets/"); ok {
		return endpoint{allow: get, early: true, serve: func(x *exchange) { x.serveAsset(rest) }}, true
	}
	return endpoint{}, false
}

// policy is the Content-Security-Policy of the page. NONCE is for the styles of the terminal's
// fallback renderer, which are made at run time. Without a policy for Trusted Types no script can
// turn a text into HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-NONCE'; style-src-attr 'unsafe-inline'; connect-src 'self'; " +
	"img-src 'self' data: blob:; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// servePage sends the page, with the addresses of its files and a new nonce.
func (x *exchange) servePage() {
	p := thePage()
	nonce := rand.Text()
	x.guardPage(strings.ReplaceAll(policy, "NONCE", nonce))
	header := x.w.Header()
	header.Set("Permissions-Policy", "clipboard-read=(self), clipboard-write=(self), camera=(), microphone=(), geolocation=(), usb=(), serial=(), payment=()")
	body := bytes.ReplaceAll(p.index, []byte("@ASSETS@"), []byte("/assets/"+p.digest))
	body = bytes.ReplaceAll(body, []byte("@NONCE@"), []byte(nonce))
	x.answer("text/html; charset=utf-8", body)
}

// guardPage sets the headers that keep other sites from embedding or reading the answer.
func (x *exchange) guardPage(policy string) {
	header := x.w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// serveAsset sends DIGEST/NAME. Another digest is that of another version, whose page must be
// loaded anew.
func (x *exchange) serveAsset(rest string) {
	p := thePage()
	digest, name, _ := strings.Cut(rest, "/")
	a := p.files[name]
	if digest != p.digest || a == nil {
		x.refuse(http.StatusNotFound, api.Errorf(api.CodeMethodNotFound, "path %.200q: not found; this daemon has another version of the page", x.r.URL.Path))
		return
	}
	x.guardPage("default-src 'none'; style-src 'unsafe-inline'; sandbox")
	header := x.w.Header()
	header.Set("Cache-Control", "public, max-age=31536000, immutable")
	header.Set("Vary", "Accept-Encoding")
	body := a.plain
	if strings.Contains(x.r.Header.Get("Accept-Encoding"), "gzip") && len(a.zip()) < len(body) {
		header.Set("Content-Encoding", "gzip")
		body = a.zip()
	}
	x.answer(a.kind, body)
}
