package testkit

import (
	"net"
	"sync"
	"time"
)

// pair is a connection through a Proxy: the client's connection and the one to the daemon.
// The locks are taken in the order proxy.mu, mu.
type pair struct {
	proxy           *Proxy
	client          net.Conn
	closed, stalled chan struct{}

	mu        sync.Mutex
	daemon    net.Conn      // guarded by mu; nil while connecting
	fault     Fault         // guarded by mu; "" for none
	after     int           // guarded by mu; the bytes to forward before the fault
	slow      time.Duration // guarded by mu; the delay of each piece
	isClosed  bool          // guarded by mu
	isStalled bool          // guarded by mu
}

// connect connects to the target and forwards both directions to the end.
func (c *pair) connect(target string) {
	daemon, err := net.Dial("tcp", target)
	if err != nil {
		c.close()
		return
	}
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		daemon.Close()
		return
	}
	c.daemon = daemon
	c.mu.Unlock()
	c.proxy.mu.Lock()
	c.proxy.connections++
	c.proxy.mu.Unlock()
	c.draw()
	c.proxy.wg.Go(func() { c.forward(c.client, daemon) })
	c.forward(daemon, c.client)
}

// draw chooses the fault of a connection while there is chaos.
func (c *pair) draw() {
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.random == nil {
		return
	}
	within := p.chaos.Within
	if p.chaos.Grows {
		for _, f := range p.chaos.Faults {
			within += p.faults[f] * p.chaos.Within / 4
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = p.random.IntN(within)
	if p.random.IntN(3) == 0 { // during the handshake
		c.after = p.random.IntN(3000)
	}
	c.fault = p.chaos.Faults[p.random.IntN(len(p.chaos.Faults))]
	if p.chaos.Delays && p.random.IntN(4) == 0 {
		c.slow = time.Duration(p.random.IntN(int(3 * time.Millisecond)))
		p.faults[delay]++
	}
}

// forward copies one direction, up to the byte at which the fault happens.
func (c *pair) forward(from, to net.Conn) {
	buf := make([]byte, 8<<10)
	for {
		n, err := from.Read(buf)
		sent, fault, slow := c.pass(n)
		if slow > 0 {
			time.Sleep(slow)
		}
		select {
		case <-c.stalled:
			<-c.closed
			return
		default:
		}
		if _, failed := to.Write(buf[:sent]); failed != nil {
			c.close()
			return
		}
		if fault != "" {
			c.proxy.mu.Lock()
			c.proxy.faults[fault]++
			c.proxy.mu.Unlock()
		}
		switch fault {
		case FaultStall:
			c.stall()
			<-c.closed
			return
		case FaultHalf:
			_ = to.(*net.TCPConn).CloseWrite()
			<-c.closed
			return
		case FaultOtherHalf: // this direction goes on: a network never loses bytes out of the middle
			_, _ = to.Write(buf[sent:n])
			_ = from.(*net.TCPConn).CloseWrite()
		case FaultReset:
			_ = from.(*net.TCPConn).SetLinger(0)
			_ = to.(*net.TCPConn).SetLinger(0)
			c.close()
			return
		case FaultCut:
			c.close()
			return
		}
		if err != nil {
			c.close()
			return
		}
	}
}

// pass counts n bytes. It returns how many of them are forwarded, and the fault that follows them.
func (c *pair) pass(n int) (sent int, fault Fault, slow time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault == "" || c.after > n {
		c.after -= n
		return n, "", c.slow
	}
	sent, fault = c.after, c.fault
	c.fault = ""
	return sent, fault, c.slow
}

func (c *pair) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isStalled {
		c.isStalled = true
		close(c.stalled)
	}
}

func (c *pair) close() {
	c.mu.Lock()
	again, daemon := c.isClosed, c.daemon
	c.isClosed = true
	c.mu.Unlock()
	if again {
		return
	}
	close(c.closed)
	c.client.Close()
	if daemon != nil {
		daemon.Close()
	}
	c.proxy.mu.Lock()
	delete(c.proxy.pairs, c)
	c.proxy.mu.Unlock()
}
