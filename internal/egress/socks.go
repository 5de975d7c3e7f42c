package egress

import (
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// socksVersion begins each message of SOCKS5 (RFC 1928).
const socksVersion = 5

// The replies.
const (
	socksDone        = 0
	socksFailure     = 1
	socksRefused     = 2
	socksUnreachable = 4
	socksNoListener  = 5
	socksCommand     = 7
	socksAddress     = 8
)

var errSOCKS = errors.New("not a SOCKS5 request")

// serveSOCKS serves a connection that speaks SOCKS5.
func (p *Proxy) serveSOCKS(c conn, in *reader) {
	host, port, err := readSOCKS(in, c)
	if err != nil {
		return
	}
	to, d, err := p.reach(host, port)
	code := byte(socksDone)
	switch {
	case err == nil:
		defer p.drop(to)
	case !d.Allowed:
		code = socksRefused
	case errors.Is(err, unix.ECONNREFUSED):
		code = socksNoListener
	default:
		code = socksUnreachable
	}
	_ = c.SetDeadline(time.Now().Add(p.headTimeout))
	if socksReply(c, code) != nil || code != socksDone {
		return
	}
	(&pair{program: c, destination: to}).splice(in.buf)
}

func socksReply(w io.Writer, code byte) error {
	return writeAll(w, []byte{socksVersion, code, 0, 1, 0, 0, 0, 0, 0, 0})
}

// readSOCKS reads the greeting and the request, and answers what is wrong with them.
func readSOCKS(in *reader, w io.Writer) (host string, port int, err error) {
	b, err := in.need(2)
	if err != nil || b[0] != socksVersion {
		return "", 0, errors.Join(err, errSOCKS)
	}
	methods := int(b[1])
	if _, err = in.need(2 + methods); err != nil {
		return "", 0, err
	}
	open := false
	for _, m := range in.take(2 + methods)[2:] {
		open = open || m == 0 // without authentication
	}
	if !open {
		return "", 0, errors.Join(writeAll(w, []byte{socksVersion, 0xff}), errSOCKS)
	}
	if err = writeAll(w, []byte{socksVersion, 0}); err != nil {
		return "", 0, err
	}
	if b, err = in.need(5); err != nil {
		return "", 0, err
	}
	size, kind := 0, b[3]
	switch {
	case b[0] != socksVersion:
		return "", 0, errSOCKS
	case b[1] != 1: // only connections; no listeners and no UDP
		return "", 0, errors.Join(socksReply(w, socksCommand), errSOCKS)
	case kind == 1:
		size = 4 + 4
	case kind == 3:
		size = 5 + int(b[4])
	case kind == 4:
		size = 4 + 16
	default:
		return "", 0, errors.Join(socksReply(w, socksAddress), errSOCKS)
	}
	if _, err = in.need(size + 2); err != nil {
		return "", 0, err
	}
	b = in.take(size + 2)
	port = int(b[size])<<8 | int(b[size+1])
	switch kind {
	case 1:
		return addr4([4]byte(b[4:8])).String(), port, nil
	case 3:
		return string(b[5:size]), port, nil
	default:
		return Addr(b[4:20]).String(), port, nil
	}
}
