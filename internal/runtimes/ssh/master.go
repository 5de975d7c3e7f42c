package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// The times of shared connections. Variables, so that tests need not wait.
var (
	// openPatience is how long a master may take to open a session. One that takes longer hangs on
	// a dead network, or behind megabytes on a slow one: new sessions get another master.
	openPatience = 8 * time.Second
	// idleTime is how long a master lives without a session.
	idleTime = 10 * time.Minute
)

// connection is the shared way to one target: a master, or several if the server allows fewer
// sessions on one connection than there are (MaxSessions, by default 10).
type connection struct {
	d *Driver
	t target

	mu        sync.Mutex
	masters   []*master // guarded by mu; alive or starting, oldest first
	installed installed // guarded by mu
}

// installed is where the runner is on the other machine.
type installed struct {
	path string // empty if this is not known
	facts
}

// master is a process of ssh that has a connection to the other machine and opens sessions on it for
// others, by its control socket. It is a child of the daemon.
//
// It has one goroutine that reads its stderr and one that waits, first for the control socket, then
// for its end.
type master struct {
	c      *connection
	socket string
	said   tail          // what ssh wrote to its stderr
	ready  chan struct{} // closed when it opens sessions, or has ended
	dead   chan struct{} // closed when it has ended, and err is set

	err  error            // written before dead is closed
	proc *process.Process // nil if it could not be started

	// Guarded by c.mu.
	sessions int  // open, or being opened
	full     bool // the server has refused another session, and none has ended since
	retired  bool // it did not open a session; it serves those that it has
	idle     *time.Timer
}

// acquire returns a master on which a session may be opened, and counts the session; release ends
// it. It starts a master if there is none. ctx bounds the waiting alone.
func (c *connection) acquire(ctx context.Context) (*master, error) {
	m, err := c.choose()
	if err != nil {
		return nil, err
	}
	select {
	case <-m.ready:
	case <-ctx.Done():
		c.release(m)
		return nil, unavailable(c.t.Destination, "does not answer yet ("+context.Cause(ctx).Error()+")", m.said.String())
	}
	select {
	case <-m.dead:
		c.release(m)
		return nil, m.err
	default:
		return m, nil
	}
}

func (c *connection) choose() (*master, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.masters, func(m *master) bool { return !m.full && !m.retired })
	if i < 0 {
		m, err := c.d.start(c)
		if err != nil {
			return nil, err
		}
		c.masters = append(c.masters, m)
		i = len(c.masters) - 1
	}
	m := c.masters[i]
	m.sessions++
	if m.idle != nil {
		m.idle.Stop()
	}
	return m, nil
}

// release ends the use of a master by a session.
func (c *connection) release(m *master) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.sessions--
	m.full = false
	switch {
	case m.sessions > 0:
	case m.retired:
		m.end()
	case m.idle == nil:
		m.idle = time.AfterFunc(idleTime, func() { c.endIfIdle(m) })
	default:
		m.idle.Reset(idleTime)
	}
}

func (c *connection) endIfIdle(m *master) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.sessions == 0 {
		m.retired = true
		m.end()
	}
}

// open opens a session that runs a command.
func (c *connection) open(ctx context.Context, command string) (*program, error) {
	for broken := 0; ; {
		m, err := c.acquire(ctx)
		if err != nil {
			return nil, err
		}
		p, err := m.open(ctx, command)
		if err == nil {
			return p, nil
		}
		var refused *refusedError
		switch {
		case errors.As(err, &refused):
			if !c.fill(m) {
				return nil, unavailable(c.t.Destination, "the server refused to open a session", refused.reason)
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.retire(m)
			why := "the connection does not answer"
			if ctx.Err() != nil {
				why += " (" + context.Cause(ctx).Error() + ")"
			}
			return nil, unavailable(c.t.Destination, why, "")
		default: // it is about to end, and has closed its socket
			c.retire(m)
			if broken++; broken == 3 {
				return nil, unavailable(c.t.Destination, "the connection broke", err.Error())
			}
		}
	}
}

// fill releases a master whose server refused a session. It reports whether another master may get
// one: whether this one has other sessions.
func (c *connection) fill(m *master) bool {
	c.release(m)
	c.mu.Lock()
	defer c.mu.Unlock()
	m.full = m.sessions > 0
	return m.full
}

// retire releases a master that gets no more sessions. It lives as long as those that it has.
func (c *connection) retire(m *master) {
	c.mu.Lock()
	m.retired = true
	c.mu.Unlock()
	c.release(m)
}

// end ends the process; dead is closed soon after.
func (m *master) end() {
	if m.proc != nil {
		_ = m.proc.Signal(syscall.SIGTERM)
	}
}

// start starts ssh.
func (d *Driver) start(c *connection) (*master, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	m := &master{c: c, ready: make(chan struct{}), dead: make(chan struct{})}
	if err := d.launch(m, []*os.File{null, w, w}); err != nil {
		r.Close()
		return nil, err
	}
	said := make(chan struct{})
	d.tasks.Go(func() {
		defer close(said)
		defer r.Close()
		_, _ = r.WriteTo(&m.said)
	})
	d.tasks.Go(func() {
		m.watch()
		// A ProxyCommand may hold the pipe longer than ssh lives.
		_ = r.SetReadDeadline(time.Now().Add(time.Second))
		<-said
		m.ended()
	})
	return m, nil
}

// launch starts the process of a master, which is then in live.
func (d *Driver) launch(m *master, files []*os.File) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return api.ErrDaemonEnding
	}
	if err := d.findLocked(); err != nil {
		return err
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil { // a cleaner of temporary files may have removed it
		return fmt.Errorf("ssh: %w", err)
	}
	if m.socket, err = d.socket(m.c.t); err != nil {
		return err
	}
	m.proc, err = d.spawn(process.Spec{
		Path: d.program, Args: m.c.t.args(m.socket), Env: d.environ, Dir: "/", Files: files,
		Setsid: true, // without a terminal ssh cannot ask anything
	})
	if err == nil {
		d.live[m] = true
	}
	return err
}

// watch returns when the process has ended. It closes ready when the control socket accepts sessions.
func (m *master) watch() {
	// The file system alone shows that ssh has made its socket.
	for pause := time.Millisecond; ; pause = min(pause*3/2, 50*time.Millisecond) {
		if _, err := os.Lstat(m.socket); err == nil {
			if ctl, err := dialControl(m.socket, time.Now().Add(openPatience)); err == nil {
				ctl.close()
				close(m.ready)
				<-m.proc.Done()
				return
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-m.proc.Done():
			timer.Stop()
			return
		}
	}
}

// ended publishes the end of the process.
func (m *master) ended() {
	c, d := m.c, m.c.d
	wasReady := false
	select {
	case <-m.ready:
		wasReady = true
	default:
	}
	what := "cannot connect"
	if wasReady {
		what = "the connection has ended"
	}
	m.err = unavailable(c.t.Destination, what, m.said.String())
	d.log.Debug("ssh has ended", "destination", c.t.Destination, "status", m.proc.Exit().Code(), "error", m.err)
	c.mu.Lock()
	c.masters = slices.DeleteFunc(c.masters, func(other *master) bool { return other == m })
	if m.idle != nil {
		m.idle.Stop()
	}
	c.mu.Unlock()
	close(m.dead)
	if !wasReady {
		close(m.ready)
	}
	_ = os.Remove(m.socket) // ssh removes it itself unless it was killed
	d.mu.Lock()
	delete(d.live, m)
	d.mu.Unlock()
	d.forget(m.proc.PID)
}
