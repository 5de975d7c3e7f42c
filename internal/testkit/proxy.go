package testkit

import (
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Proxy forwards TCP connections to a daemon and does to them what networks do: it refuses them,
// cuts them, stops forwarding without closing them, closes one direction only, and delays them. It
// has one goroutine that accepts, and two per connection; the end of the test waits for all of them.
type Proxy struct {
	t  testing.TB
	wg sync.WaitGroup

	mu          sync.Mutex
	address     string         // guarded by mu
	target      string         // guarded by mu
	listener    net.Listener   // guarded by mu; nil while connections are refused
	pairs       map[*pair]bool // guarded by mu; the open connections
	connections int            // guarded by mu; since the start
	chaos       Chaos          // guarded by mu
	random      *rand.Rand     // guarded by mu; nil while there is no chaos
	faults      map[Fault]int  // guarded by mu; since the start
}

// Fault is one way in which chaos disturbs a connection.
type Fault string

const (
	FaultCut       Fault = "cut"        // both ends are closed
	FaultReset     Fault = "reset"      // both ends are closed without a farewell (RST)
	FaultStall     Fault = "stall"      // nothing is forwarded any more, and both ends stay open
	FaultHalf      Fault = "half"       // the receiver reads the end of the stream; the other direction goes on
	FaultOtherHalf Fault = "other half" // the sender reads the end of the stream, and may go on sending
)

// delay is counted beside the faults: it slows a connection down and breaks nothing.
const delay Fault = "delay"

// Chaos says how connections are disturbed at random. Each of them suffers one fault.
type Chaos struct {
	Faults []Fault // each is as likely as the others
	Within int     // bytes that a connection carries at most before its fault

	// Grows lets the connection after each fault carry more, a quarter of Within. Otherwise a message
	// that needs more than Within bytes on one connection might never arrive.
	Grows bool
	// Delays slows a quarter of the connections down, by up to 3 ms for each piece.
	Delays bool
}

// NewProxy starts a proxy that forwards to target, a host and a port, until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, address: reservePort(t), target: target, pairs: map[*pair]bool{}, faults: map[Fault]int{}}
	p.Listen()
	t.Cleanup(func() {
		p.Refuse()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Address is the host and the port at which the proxy listens.
func (p *Proxy) Address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

// Aim changes the target of new connections.
func (p *Proxy) Aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Listen ends Refuse. The address stays the same.
func (p *Proxy) Listen() {
	p.t.Helper()
	ln, err := net.Listen("tcp", p.Address())
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.listener, p.address = ln, ln.Addr().String()
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			p.accepted(ln, client)
		}
	})
}

// Refuse refuses new connections. The open ones go on.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// Cut closes all open connections.
func (p *Proxy) Cut() { p.each((*pair).close) }

// Stall stops forwarding on all open connections, and keeps them open.
func (p *Proxy) Stall() { p.each((*pair).stall) }

// Chaos disturbs all connections from now on, the open ones and the new ones.
func (p *Proxy) Chaos(chaos Chaos) {
	p.t.Helper()
	random := Random(p.t)
	p.mu.Lock()
	p.chaos, p.random = chaos, random
	p.mu.Unlock()
	p.each((*pair).draw)
}

// Calm spares new connections from the chaos.
func (p *Proxy) Calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.random = nil
}

// Connections counts the connections since the start.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connections
}

// Faults counts the faults that the chaos caused, and the connections that it delayed.
func (p *Proxy) Faults() map[Fault]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.faults)
}

func (p *Proxy) each(do func(*pair)) {
	p.mu.Lock()
	pairs := maps.Clone(p.pairs)
	p.mu.Unlock()
	for c := range pairs {
		do(c)
	}
}

// accepted registers a connection before it is connected to the target, so that a Cut that follows a
// Refuse closes every connection.
func (p *Proxy) accepted(ln net.Listener, client net.Conn) {
	c := &pair{proxy: p, client: client, closed: make(chan struct{}), stalled: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != ln {
		client.Close()
		return
	}
	p.pairs[c] = true
	target := p.target
	p.wg.Go(func() { c.connect(target) })
}
