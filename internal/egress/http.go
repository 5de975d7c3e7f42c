package egress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request is the head of a request to an HTTP proxy.
type request struct {
	tunnel bool // CONNECT
	host   string
	port   int
	length int64  // of the body; -1 for a body that tells its end itself
	head   []byte // what the destination gets; not for a tunnel
}

// serveHTTP serves a connection that speaks HTTP/1: one tunnel or one request.
func (p *Proxy) serveHTTP(c conn, in *reader) {
	head, err := in.head()
	if err != nil {
		if errors.Is(err, errTooLong) {
			p.answer(c, "431 Request Header Fields Too Large", err.Error())
		}
		return
	}
	q, err := parseRequest(head)
	if err != nil {
		p.answer(c, "400 Bad Request", err.Error())
		return
	}
	to, d, err := p.reach(q.host, q.port)
	if err != nil {
		status := "403 Forbidden"
		what := "refused: "
		if d.Allowed {
			status, what = "502 Bad Gateway", ""
		}
		p.answer(c, status, fmt.Sprintf("%s port %d: %s%s", d.Host, d.Port, what, d.Reason))
		return
	}
	defer p.drop(to)
	_ = c.SetDeadline(time.Now().Add(p.headTimeout))
	if q.tunnel {
		if writeAll(c, []byte("HTTP/1.1 200 Connection established\r\n\r\n")) == nil {
			(&pair{program: c, destination: to}).splice(in.buf)
		}
		return
	}
	p.forward(c, to, in, q)
}

// answer is an answer of the proxy itself.
func (p *Proxy) answer(c conn, status, text string) {
	text = "trl: network: " + text + "\n"
	_ = c.SetDeadline(time.Now().Add(p.headTimeout))
	if writeAll(c, []byte("HTTP/1.1 "+status+"\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(text))+"\r\n\r\n"+text)) != nil {
		return
	}
	c.closeWrite()
	_ = c.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.CopyN(io.Discard, onlyReader{c}, 1<<20)
}

// onlyReader hides the other methods of a file, which are for files on disk.
type onlyReader struct{ io.Reader }

// forward passes one request and its answer on. The connection then ends, and both sides know that
// from the heads.
func (p *Proxy) forward(c, to conn, in *reader, q request) {
	pr := &pair{program: c, destination: to}
	_ = c.SetDeadline(time.Time{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := writeAll(to, q.head)
		switch {
		case err != nil:
		case q.length < 0:
			if err = writeAll(to, in.buf); err == nil {
				err = pr.pass(to, c)
			}
		default:
			if err = copyN(to, io.MultiReader(bytes.NewReader(in.buf), c), q.length); err == nil {
				_, err = io.Copy(io.Discard, onlyReader{c}) // until the program ends its side
			}
		}
		if err == nil {
			pr.end(nil) // the program may still read the answer
		}
	}()
	p.passAnswer(pr)
	c.closeWrite()
	to.Close()
	_ = c.SetReadDeadline(time.Now().Add(lingerTimeout))
	<-done
}

// copyN is io.CopyN with a buffer of its own; a file would try other ways first.
func copyN(w io.Writer, r io.Reader, n int64) error {
	buf := make([]byte, min(n, copyBuffer))
	for n > 0 {
		m, err := r.Read(buf[:min(n, int64(len(buf)))])
		if m > 0 {
			if err := writeAll(w, buf[:m]); err != nil {
				return err
			}
			n -= int64(m)
		}
		if err != nil && n > 0 {
			return err
		}
	}
	return nil
}

// passAnswer passes the answer of the destination on, with heads that say that the connection ends.
func (p *Proxy) passAnswer(pr *pair) {
	c, in := pr.program, &reader{r: pr.destination}
	for {
		head, err := in.head()
		if err != nil {
			if errors.Is(err, errTooLong) || errors.Is(err, io.EOF) {
				p.answer(c, "502 Bad Gateway", "the destination did not answer in HTTP")
			}
			return
		}
		line, fields, err := parseHead(head)
		if err != nil || !strings.HasPrefix(line, "HTTP/1.") {
			p.answer(c, "502 Bad Gateway", "the destination did not answer in HTTP")
			return
		}
		_, status, _ := strings.Cut(line, " ")
		interim := strings.HasPrefix(status, "1") && !strings.HasPrefix(status, "101")
		if writeAll(c, writeHead(line, fields, !interim)) != nil {
			return
		}
		if !interim {
			break
		}
	}
	if writeAll(c, in.buf) == nil {
		_ = pr.pass(c, pr.destination)
	}
}

// head takes the head of a message, with the empty line at its end.
func (in *reader) head() ([]byte, error) {
	for from := 0; ; {
		if i := bytes.Index(in.buf[from:], []byte("\r\n\r\n")); i >= 0 {
			return in.take(from + i + 4), nil
		}
		from = max(len(in.buf)-3, 0)
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
}

// field is a line of a head.
type field struct{ name, value string }

var errHead = errors.New("the request is not HTTP/1")

// parseHead reads a head. It takes only the strict form, so that nothing means one thing here and another
// at the destination.
func parseHead(head []byte) (line string, fields []field, err error) {
	text, ok := strings.CutSuffix(string(head), "\r\n\r\n")
	if !ok {
		return "", nil, errHead
	}
	for i, l := range strings.Split(text, "\r\n") {
		if strings.ContainsAny(l, "\r\n\x00") {
			return "", nil, errHead
		}
		if i == 0 {
			line = l
			continue
		}
		name, value, ok := strings.Cut(l, ":")
		if !ok || name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") != "" {
			return "", nil, errHead
		}
		fields = append(fields, field{name, strings.Trim(value, " \t")})
	}
	return line, fields, nil
}

// hopByHop are the fields that belong to one connection. Transfer-Encoding stays, because the body is
// passed on as it is; so does the field Trailer, which describes it.
var hopByHop = []string{"connection", "keep-alive", "te", "upgrade", "http2-settings"}

// writeHead returns a head without the fields of the connection and those for the proxy, which may have
// credentials. A last head says that the connection ends.
func writeHead(line string, fields []field, last bool) []byte {
	drop := slices.Clone(hopByHop)
	for _, f := range fields {
		if strings.EqualFold(f.name, "connection") {
			for name := range strings.SplitSeq(f.value, ",") {
				name = strings.ToLower(strings.Trim(name, " \t"))
				if name != "transfer-encoding" && name != "content-length" && name != "host" {
					drop = append(drop, name)
				}
			}
		}
	}
	b := append([]byte(line), "\r\n"...)
	for _, f := range fields {
		name := strings.ToLower(f.name)
		if !slices.Contains(drop, name) && !strings.HasPrefix(name, "proxy-") {
			b = append(b, f.name+": "+f.value+"\r\n"...)
		}
	}
	if last {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(b, "\r\n"...)
}

// parseRequest reads the head of a request to a proxy: CONNECT host:port, or a request with a whole URL.
func parseRequest(head []byte) (q request, err error) {
	line, fields, err := parseHead(head)
	if err != nil {
		return q, err
	}
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	if method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" || target == "" || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return q, errHead
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] == 0x7f {
			return q, errHead
		}
	}
	if method == "CONNECT" {
		q.tunnel = true
		return q, q.destination(target, 0)
	}
	const scheme = "http://"
	if len(target) < len(scheme) || !strings.EqualFold(target[:len(scheme)], scheme) {
		return q, errors.New("this is the proxy of a session: it accepts CONNECT, requests with a whole URL that begins with http://, and SOCKS5")
	}
	authority, path := target[len(scheme):], "/"
	if i := strings.IndexAny(authority, "/?#"); i >= 0 {
		authority, path = authority[:i], authority[i:]
		if path[0] != '/' {
			path = "/" + path
		}
	}
	path, _, _ = strings.Cut(path, "#")
	if err = q.destination(authority, 80); err != nil {
		return q, err
	}
	if q.length, err = bodyLength(fields); err != nil {
		return q, err
	}
	fields = slices.DeleteFunc(fields, func(f field) bool { return strings.EqualFold(f.name, "host") })
	fields = append([]field{{"Host", authority}}, fields...)
	q.head = writeHead(method+" "+path+" "+version, fields, true)
	return q, nil
}

// destination sets host and port from an authority; a port of 0 means that the authority must have one.
func (q *request) destination(authority string, port int) error {
	if strings.Contains(authority, "@") {
		return errors.New("the URL has a user, which belongs in the header Authorization")
	}
	host, text, err := cutPort(authority)
	if err != nil {
		return fmt.Errorf("the destination %w", err)
	}
	if text != "" {
		n, ok := number(text, 65535)
		if !ok {
			return errors.New("the port is not a number up to 65535")
		}
		port = n
	}
	if host == "" || port == 0 {
		return errors.New("the destination is not a host with a port")
	}
	q.host, q.port = host, port
	return nil
}

// bodyLength returns the length of the body of a request; -1 for one that tells its end itself.
func bodyLength(fields []field) (n int64, err error) {
	length, chunked := "", false
	for _, f := range fields {
		switch strings.ToLower(f.name) {
		case "content-length":
			if length != "" && length != f.value {
				return 0, errHead
			}
			length = f.value
		case "transfer-encoding":
			if chunked || !strings.EqualFold(f.value, "chunked") {
				return 0, errHead
			}
			chunked = true
		}
	}
	switch {
	case chunked && length != "":
		return 0, errHead
	case chunked:
		return -1, nil
	case length == "":
		return 0, nil
	}
	u, err := strconv.ParseUint(length, 10, 62)
	if err != nil {
		return 0, errHead
	}
	return int64(u), nil
}
