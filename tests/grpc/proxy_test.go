package grpc_test

import (
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// proxy stands between a client and a daemon, and does to their connections what networks
// do: it cuts them, stops forwarding without closing them, delays them, and closes one
// direction only.
type proxy struct {
	t       *testing.T
	address string // where it listens
	target  string

	mu     sync.Mutex
	random *rand.Rand    // guarded by mu; nil while nothing is done
	most   int           // guarded by mu; bytes until something is done
	ln     net.Listener  // guarded by mu; nil while nobody can connect
	pairs  map[*pair]int // guarded by mu
	taken  int           // guarded by mu; connections since the beginning
	deeds  map[string]int
	wg     sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{t: t, address: "127.0.0.1:0", target: target, pairs: map[*pair]int{}, deeds: map[string]int{}}
	p.listen()
	t.Cleanup(func() {
		p.refuse()
		p.each((*pair).close)
		p.wg.Wait()
	})
	return p
}

// listen lets clients connect, always at the same address.
func (p *proxy) listen() {
	p.t.Helper()
	ln, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.ln, p.address = ln, ln.Addr().String()
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			p.serve(nc)
		}
	})
}

// refuse lets nobody connect.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ln != nil {
		p.ln.Close()
		p.ln = nil
	}
}

// seed says what chaos to make: that of $TRL_CHAOS_SEED, or another one each time.
func seed(t *testing.T) uint64 {
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("TRL_CHAOS_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("TRL_CHAOS_SEED=%d", n)
	return n
}

// chaos begins to disturb all connections, those that are there and those that will be,
// within so many bytes.
func (p *proxy) chaos(seed uint64, most int) {
	p.mu.Lock()
	p.most = most
	p.random = rand.New(rand.NewPCG(seed, 7))
	p.mu.Unlock()
	p.each((*pair).fate)
}

func (p *proxy) each(do func(*pair)) {
	p.mu.Lock()
	var list []*pair
	for c := range p.pairs {
		list = append(list, c)
	}
	p.mu.Unlock()
	for _, c := range list {
		do(c)
	}
}

// connections is how many there have been.
func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// pair is the two connections between which bytes are forwarded.
type pair struct {
	proxy           *proxy
	client, daemon  net.Conn
	closed, stalled chan struct{}

	mu    sync.Mutex
	deed  string        // guarded by mu; what will be done, "" for nothing
	after int           // guarded by mu; to how many bytes
	slow  time.Duration // guarded by mu; before each piece
	over  bool          // guarded by mu
	still bool          // guarded by mu; stalled is closed
}

func (p *proxy) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	daemon, err := net.Dial("tcp", target)
	if err != nil {
		client.Close()
		return
	}
	c := &pair{proxy: p, client: client, daemon: daemon, closed: make(chan struct{}), stalled: make(chan struct{})}
	p.mu.Lock()
	p.pairs[c] = p.taken
	p.taken++
	p.mu.Unlock()
	c.fate()
	p.wg.Go(func() { c.forward(client, daemon) })
	p.wg.Go(func() { c.forward(daemon, client) })
}

// fate decides what becomes of a connection.
func (c *pair) fate() {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	random := c.proxy.random
	if random == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = random.IntN(c.proxy.most)
	if random.IntN(3) == 0 { // while they are still shaking hands
		c.after = random.IntN(3000)
	}
	c.deed = []string{"cut", "reset", "stall", "half", "other half"}[random.IntN(5)]
	c.proxy.deeds[c.deed]++
	if random.IntN(4) == 0 {
		c.slow = time.Duration(random.IntN(int(3 * time.Millisecond)))
		c.proxy.deeds["delay"]++
	}
}

// forward copies one direction, up to the byte at which something is done.
func (c *pair) forward(from, to net.Conn) {
	buf := make([]byte, 8<<10)
	for {
		n, err := from.Read(buf)
		left, deed, slow := c.pass(n)
		if slow > 0 {
			time.Sleep(slow)
		}
		select {
		case <-c.stalled:
			<-c.closed
			return
		default:
		}
		if _, failed := to.Write(buf[:left]); failed != nil {
			c.close()
			return
		}
		switch deed {
		case "":
		case "stall":
			c.stall()
			<-c.closed
			return
		case "half": // this side hears the end, and the other goes on
			_ = to.(*net.TCPConn).CloseWrite()
			<-c.closed
			return
		case "other half": // a network loses bytes only with all that follow
			_, _ = to.Write(buf[left:n])
			_ = from.(*net.TCPConn).CloseWrite()
		case "reset":
			_ = c.client.(*net.TCPConn).SetLinger(0)
			_ = c.daemon.(*net.TCPConn).SetLinger(0)
			c.close()
			return
		case "cut":
			c.close()
			return
		}
		if err != nil {
			c.close()
			return
		}
	}
}

// pass counts n bytes, and says how many of them are forwarded before what is done.
func (c *pair) pass(n int) (left int, deed string, slow time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.deed == "":
		return n, "", c.slow
	case c.after > n:
		c.after -= n
		return n, "", c.slow
	}
	left, deed = min(c.after, n), c.deed
	c.deed = ""
	return left, deed, c.slow
}

// stall stops forwarding and keeps everything open.
func (c *pair) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.still {
		c.still = true
		close(c.stalled)
	}
}

func (c *pair) close() {
	c.mu.Lock()
	first := !c.over
	c.over = true
	c.mu.Unlock()
	if !first {
		return
	}
	close(c.closed)
	c.client.Close()
	c.daemon.Close()
	c.proxy.mu.Lock()
	delete(c.proxy.pairs, c)
	c.proxy.mu.Unlock()
}
