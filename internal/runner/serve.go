package runner

import (
	"encoding/json"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Serve accepts daemons on a listening unix socket, for ever. The newest
// connection is the one that is told about changes; an older one is closed.
func (r *Runner) Serve(listener *os.File) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.loneTimer = time.AfterFunc(firstDaemonTimeout, func() { r.cfg.Exit(1) })
	r.mu.Unlock()
	for {
		fd := -1
		var acceptErr error
		err := raw.Read(func(l uintptr) bool {
			fd, acceptErr = accept(int(l))
			return acceptErr != unix.EAGAIN
		})
		if err != nil {
			return err
		}
		if acceptErr != nil {
			if acceptErr == unix.EMFILE || acceptErr == unix.ENFILE {
				time.Sleep(100 * time.Millisecond) // nothing else helps; do not spin
			}
			continue
		}
		if !ownPeer(fd) {
			unix.Close(fd)
			continue
		}
		conn := r.take(os.NewFile(uintptr(fd), "daemon"))
		go conn.Serve(r)
	}
}

// take makes a connection the one of the daemon. It is called in the order in which they
// were accepted.
func (r *Runner) take(rwc io.ReadWriteCloser) *link.Conn {
	conn := link.NewConn(rwc)
	r.mu.Lock()
	old := r.conn
	r.setDaemon(conn)
	r.loneTimer.Stop()
	if r.export != nil { // it begins anew
		_ = r.export.r.Close()
		r.export = nil
	}
	r.mu.Unlock()
	if old != nil {
		old.Close()
	}
	go func() {
		<-conn.Done()
		r.left(conn)
	}()
	return conn
}

// setDaemon changes who the daemon is. The streams of the one before are gone. Call with
// mu held.
func (r *Runner) setDaemon(conn *link.Conn) {
	r.conn = conn
	if r.current != nil {
		r.current.orphan()
	}
	for _, e := range r.queue {
		e.orphan()
	}
}

func (r *Runner) hasDaemon() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn != nil
}

// firstDaemonTimeout is how long a runner waits for the daemon that started it.
const firstDaemonTimeout = 30 * time.Second

// left is called when a daemon is gone. A session that was never created goes
// with it; one that exists waits for the next daemon, up to its idle time-out.
func (r *Runner) left(conn *link.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != conn {
		return
	}
	r.setDaemon(nil)
	if !r.created {
		r.unwanted = true
		go r.destroy(link.DestroyParams{Force: true, Cause: "the daemon left before the session was created"}, true)
		return
	}
	if r.ending != nil {
		go r.linger(r.ending)
		return
	}
	if idle := seconds(r.params.Limits.IdleTimeoutS); idle > 0 {
		r.loneTimer = time.AfterFunc(idle, r.lone)
	}
}

// lone ends a session that nobody has used and no daemon has asked for.
func (r *Runner) lone() {
	r.mu.Lock()
	idle := seconds(r.params.Limits.IdleTimeoutS)
	rest := idle - time.Since(r.activity)
	if r.conn != nil || r.ending != nil {
		r.mu.Unlock()
		return
	}
	if r.current != nil {
		rest = idle
	}
	if rest > 0 {
		r.loneTimer.Reset(rest)
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	r.destroy(link.DestroyParams{Cause: "idle time-out, with no daemon there"}, true)
}

// Event implements link.Handler. A daemon tells nothing.
func (r *Runner) Event(string, json.RawMessage, []byte) {}

// hello says who this is, to a daemon that can understand it.
func (r *Runner) hello(p link.HelloParams) (link.HelloResult, error) {
	if p.Protocol < link.MinProtocol || p.Protocol > link.Protocol+1 {
		return link.HelloResult{}, api.Errorf(api.CodeRuntimeUnavailable,
			"session %q: its runner speaks protocol %d, the daemon %d: too far apart; use a daemon of version %s, or one release later or earlier", r.cfg.SessionID, link.Protocol, p.Protocol, r.cfg.Version)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// An older daemon is spoken to in its own words; it does not know the new ones.
	return link.HelloResult{Version: r.cfg.Version, Protocol: min(link.Protocol, p.Protocol), SessionID: r.cfg.SessionID, PID: os.Getpid(), Created: r.created}, nil
}
