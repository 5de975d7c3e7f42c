package dialogue_test

import (
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy stands between two daemons and breaks their connections.
type proxy struct {
	t       *testing.T
	address string

	mu     sync.Mutex
	target string           // guarded by mu
	ln     net.Listener     // guarded by mu; nil while nobody can connect
	random *rand.Rand       // guarded by mu; nil while nothing is broken by chance
	most   int              // guarded by mu; bytes until that is done
	live   map[*broken]bool // guarded by mu
	breaks int              // guarded by mu; connections that were broken by chance
	wg     sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{t: t, address: "127.0.0.1:0", live: map[*broken]bool{}}
	p.aim(target)
	p.listen()
	t.Cleanup(func() {
		p.refuse()
		p.cut()
		p.wg.Wait()
	})
	return p
}

// aim says where new connections go.
func (p *proxy) aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = strings.TrimPrefix(target, "grpc://")
}

// listen lets others connect, always at the same address.
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
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
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

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	var list []*broken
	for c := range p.live {
		list = append(list, c)
	}
	p.mu.Unlock()
	for _, c := range list {
		c.close(false)
	}
}

// chaos breaks every connection from now on, within so many bytes at first. Each break lets
// the next connection carry more: a push of up to 64 KiB needs one that carries it whole.
func (p *proxy) chaos(most int) {
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("TRL_CHAOS_SEED"); text != "" {
		n, _ = strconv.ParseUint(text, 10, 64)
	}
	p.t.Logf("TRL_CHAOS_SEED=%d", n)
	p.mu.Lock()
	p.random, p.most = rand.New(rand.NewPCG(n, 7)), most
	p.mu.Unlock()
	p.cut()
}

// calm ends the chaos and says how much of it there was.
func (p *proxy) calm() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.random = nil
	return p.breaks
}

// broken is a connection through the proxy.
type broken struct {
	proxy *proxy
	ends  [2]net.Conn
	once  sync.Once

	mu    sync.Mutex
	after int  // guarded by mu; bytes until it breaks
	fated bool // guarded by mu
	reset bool // guarded by mu; without a farewell
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
	c := &broken{proxy: p, ends: [2]net.Conn{client, daemon}}
	p.mu.Lock()
	p.live[c] = true
	if p.random != nil {
		c.fated, c.after, c.reset = true, p.random.IntN(p.most+p.breaks*p.most/4), p.random.IntN(2) == 0
		if p.random.IntN(3) == 0 { // while they are still shaking hands
			c.after = p.random.IntN(3000)
		}
	}
	p.mu.Unlock()
	p.wg.Go(func() { c.forward(client, daemon) })
	c.forward(daemon, client)
}

func (c *broken) forward(from, to net.Conn) {
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		c.mu.Lock()
		breaks := c.fated && c.after <= n
		if breaks {
			n = c.after
		}
		c.after -= n
		c.mu.Unlock()
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil || breaks {
			c.close(breaks)
			return
		}
	}
}

func (c *broken) close(byChance bool) {
	c.once.Do(func() {
		c.mu.Lock()
		reset := c.reset
		c.mu.Unlock()
		for _, end := range c.ends {
			if reset {
				_ = end.(*net.TCPConn).SetLinger(0)
			}
			end.Close()
		}
		c.proxy.mu.Lock()
		delete(c.proxy.live, c)
		if byChance {
			c.proxy.breaks++
		}
		c.proxy.mu.Unlock()
	})
}
