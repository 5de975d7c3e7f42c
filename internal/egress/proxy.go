package egress

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of the proxy.
const (
	// MaxConns is how many connections the proxy serves at once. Further ones wait in the
	// kernel.
	MaxConns = 512
	// maxHead is how many bytes the head of a request or of an answer may have.
	maxHead = 64 << 10
	// headTimeout is how long a program may take to send its request, and dialTimeout how long the
	// destination may take to accept a connection.
	headTimeout = 30 * time.Second
	dialTimeout = 30 * time.Second
	// halfTimeout is how long a connection may be silent after one side has ended it.
	halfTimeout = 10 * time.Minute
	// lingerTimeout is how long the proxy still reads from a program that has its answer: closing a
	// socket with unread bytes would discard the answer.
	lingerTimeout = 2 * time.Second
	copyBuffer    = 32 << 10
)

// Config is what a Proxy needs.
type Config struct {
	Rules Rules
	// Report is called with each decision, possibly by several goroutines at once.
	Report func(Decision)
	// Lookup finds the addresses of a name; nil for the resolver of the system.
	Lookup func(name string) ([]Addr, error)
	// Own reports whether an address is one of this machine; nil to ask the kernel.
	Own func(Addr) bool
	// HeadTimeout replaces the time for a request; 0 for the usual one.
	HeadTimeout time.Duration
}

// Proxy connects the programs of a session with the destinations that they may reach.
type Proxy struct {
	rules       Rules
	report      func(Decision)
	lookup      func(string) ([]Addr, error)
	own         func(Addr) bool
	headTimeout time.Duration
	slots       chan struct{}
	running     sync.WaitGroup

	mu     sync.Mutex
	closed bool              // guarded by mu
	open   map[conn]struct{} // guarded by mu; all sockets, which Close closes
}

// New makes a Proxy.
func New(c Config) *Proxy {
	p := &Proxy{rules: c.Rules, report: c.Report, lookup: c.Lookup, own: c.Own, headTimeout: c.HeadTimeout, slots: make(chan struct{}, MaxConns), open: map[conn]struct{}{}}
	if p.lookup == nil {
		p.lookup = system.Lookup
	}
	if p.own == nil {
		p.own = isOwn
	}
	if p.headTimeout == 0 {
		p.headTimeout = headTimeout
	}
	return p
}

// Serve serves the connections of a listener, which it owns from now on. It returns when Close is
// called and the connections have ended.
func (p *Proxy) Serve(listener *os.File) error {
	defer p.running.Wait()
	l := conn{listener}
	if !p.keep(l) {
		return nil
	}
	defer p.drop(l)
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	for {
		p.slots <- struct{}{}
		fd, acceptErr := -1, error(nil)
		err := raw.Read(func(l uintptr) bool {
			fd, acceptErr = accept(int(l))
			return acceptErr != unix.EAGAIN
		})
		if err != nil {
			<-p.slots
			return err
		}
		if acceptErr != nil {
			<-p.slots
			if acceptErr == unix.EMFILE || acceptErr == unix.ENFILE {
				time.Sleep(100 * time.Millisecond) // no event announces a free descriptor; do not spin
			}
			continue
		}
		c := conn{os.NewFile(uintptr(fd), "program")}
		if !p.keep(c) {
			<-p.slots
			return nil
		}
		p.running.Add(1)
		go func() {
			defer func() { p.drop(c); <-p.slots; p.running.Done() }()
			p.serve(c)
		}()
	}
}

// Close ends all connections. Those that are still being made end by their deadlines.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
}

// keep notes a socket for Close. After Close it closes the socket and returns false.
func (p *Proxy) keep(c conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c conn) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	c.Close()
}

// serve serves one connection. Its first byte tells the protocol.
func (p *Proxy) serve(c conn) {
	_ = c.SetDeadline(time.Now().Add(p.headTimeout))
	in := &reader{r: c}
	first, err := in.need(1)
	if err != nil {
		return
	}
	if first[0] == socksVersion {
		p.serveSOCKS(c, in)
		return
	}
	p.serveHTTP(c, in)
}

// reach decides about a destination and connects to it. Without a connection, d says whether it
// was refused. Each decision is reported once, with the result of the attempt to connect.
func (p *Proxy) reach(host string, port int) (c conn, d Decision, err error) {
	d, addrs := p.decide(host, port)
	defer func() {
		if p.report != nil {
			p.report(d)
		}
	}()
	if !d.Allowed || len(addrs) == 0 {
		return conn{}, d, errors.New(d.Reason)
	}
	deadline := time.Now().Add(dialTimeout)
	for i, a := range addrs {
		// One address that does not answer leaves time for the others.
		share := time.Until(deadline) / time.Duration(len(addrs)-i)
		if c, err = dial(unix.SOCK_STREAM, a, port, time.Now().Add(share)); err == nil {
			if p.keep(c) {
				return c, d, nil
			}
			err = os.ErrClosed
			break
		}
	}
	d.Reason = "it could not be reached: " + err.Error()
	return conn{}, d, err
}

// pair is a program and its destination while bytes pass between them.
type pair struct {
	program, destination conn
	half                 atomic.Bool // one side has ended
}

// splice passes bytes in both directions until both sides have ended. before is what the program
// has sent already.
func (pr *pair) splice(before []byte) {
	_ = pr.program.SetDeadline(time.Time{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if writeAll(pr.destination, before) == nil {
			pr.end(pr.pass(pr.destination, pr.program))
		}
		pr.destination.closeWrite()
	}()
	pr.end(pr.pass(pr.program, pr.destination))
	pr.program.closeWrite()
	<-done
}

// end notes that one direction has ended. At the end of one side, the other direction goes on and may be
// silent for halfTimeout; after an error nothing goes on.
func (pr *pair) end(err error) {
	if err != nil {
		pr.program.Close()
		pr.destination.Close()
		return
	}
	pr.half.Store(true)
	pr.extend()
}

func (pr *pair) extend() {
	at := time.Now().Add(halfTimeout)
	_ = pr.program.SetDeadline(at)
	_ = pr.destination.SetDeadline(at)
}

// pass copies bytes from one socket to another, until the first one ends.
func (pr *pair) pass(to, from conn) error {
	buf := make([]byte, copyBuffer)
	for {
		n, err := from.Read(buf)
		if pr.half.Load() {
			pr.extend()
		}
		if err := writeAll(to, buf[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func writeAll(w io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}

// reader reads from a socket what a request needs, and keeps what follows.
type reader struct {
	r   io.Reader
	buf []byte
}

var errTooLong = errors.New("the head has more than " + strconv.Itoa(maxHead) + " bytes")

// fill reads more.
func (in *reader) fill() error {
	if len(in.buf) >= maxHead {
		return errTooLong
	}
	old := len(in.buf)
	in.buf = append(in.buf, make([]byte, min(4096, maxHead-old))...)
	n, err := in.r.Read(in.buf[old:])
	in.buf = in.buf[:old+n]
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// need returns the next n bytes without taking them.
func (in *reader) need(n int) ([]byte, error) {
	for len(in.buf) < n {
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
	return in.buf[:n], nil
}

// take takes n bytes that need has returned.
func (in *reader) take(n int) []byte {
	b := in.buf[:n:n]
	in.buf = in.buf[n:]
	return b
}
