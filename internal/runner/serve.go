package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Serve accepts connections on a listening unix socket, without an end. The newest connection with a
// hello is the daemon, to which the runner reports; the earlier one is closed. A connection
// without a hello is closed after helloTimeout.
func (r *Runner) Serve(listener *os.File) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.loneTimer = time.AfterFunc(firstDaemonTimeout, func() { r.cfg.Exit(1) })
	r.mu.Unlock()
	for number := int64(1); ; {
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
				time.Sleep(100 * time.Millisecond) // no event announces a free descriptor; do not spin
			}
			continue
		}
		if !ownPeer(fd) {
			unix.Close(fd)
			continue
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
		r.serve(os.NewFile(uintptr(fd), "daemon"), number)
		number++
	}
}

// sendBuffer is how many bytes the socket takes before the daemon reads them. With the default
// a large piece of output would wait several times on its way.
const sendBuffer = 512 << 10

// helloTimeout is how long a connection may stay without a hello.
const helloTimeout = 30 * time.Second

// serve answers on a connection. Connections are numbered in the order of their arrival.
func (r *Runner) serve(rwc io.ReadWriteCloser, number int64) {
	p := &peer{runner: r, conn: link.NewConn(rwc), number: number}
	impatience := time.AfterFunc(helloTimeout, func() {
		if !p.greeted.Load() {
			p.conn.Close()
		}
	})
	go func() {
		_ = p.conn.Serve(p)
		impatience.Stop()
	}()
	go func() {
		<-p.conn.Done()
		r.left(p)
	}()
}

// peer is the other end of a connection: a daemon, once it has said hello.
type peer struct {
	runner  *Runner
	conn    *link.Conn
	number  int64
	greeted atomic.Bool
	proved  bool // it has the key; guarded by the runner's mu
}

// Handle implements link.Handler.
func (p *peer) Handle(ctx context.Context, in *link.Incoming) error {
	if in.Name == link.Hello.Name {
		return link.Hello.Handle(p.hello).Handle(ctx, in)
	}
	if !p.greeted.Load() {
		return api.Errorf(api.CodeForbidden, "runner: %s: the first call must be hello", in.Name)
	}
	return p.runner.Handle(ctx, in)
}

// Event implements link.Handler. A daemon sends no events.
func (p *peer) Event(string, json.RawMessage, []byte) {}

// welcome makes a peer the daemon if it is the newest, and returns the daemon that it replaces. A
// peer without the key cannot replace one that has it.
func (r *Runner) welcome(p *peer, key string) (old *peer, err error) {
	r.mu.Lock()
	old = r.daemon
	if r.key == "" {
		r.key = key
	}
	p.proved = key == r.key
	switch {
	case old == p:
		r.mu.Unlock()
		return nil, nil
	case old != nil && old.proved && !p.proved:
		r.mu.Unlock()
		return nil, api.Errorf(api.CodeForbidden, "session %q: another daemon is connected, and this connection does not have its key", r.cfg.SessionID)
	case old != nil && old.number > p.number:
		r.mu.Unlock()
		return nil, api.Errorf(api.CodeConflict, "session %q: its daemon has connected again", r.cfg.SessionID)
	}
	r.setDaemonLocked(p)
	p.greeted.Store(true)
	r.loneTimer.Stop()
	if r.fetch != nil { // the new daemon fetches the export from its beginning
		_ = r.fetch.r.Close()
		r.fetch = nil
	}
	r.mu.Unlock()
	select {
	case <-p.conn.Done(): // it was gone before it became the daemon
		r.left(p)
	default:
	}
	return old, nil
}

// setDaemonLocked replaces the daemon; nil for none. The streams of the earlier daemon have ended.
func (r *Runner) setDaemonLocked(p *peer) {
	r.daemon, r.conn = p, nil
	if p != nil {
		r.conn = p.conn
	}
	for _, list := range [][]*Exec{r.queue, r.parallel, r.waiting} {
		for _, e := range list {
			e.orphan()
		}
	}
	if r.current != nil {
		r.current.orphan()
	}
}

func (r *Runner) hasDaemon() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn != nil
}

// firstDaemonTimeout is how long a runner waits for the daemon that started it.
const firstDaemonTimeout = 30 * time.Second

// left is called when a daemon has disconnected. A session that was not created yet ends. A created one
// waits for the next daemon, up to its idle timeout, and as long as a daemon can find it.
func (r *Runner) left(p *peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.daemon != p {
		return
	}
	r.setDaemonLocked(nil)
	if !r.created {
		r.unwanted = true
		go r.destroy(link.DestroyParams{Force: true, Cause: "the daemon left before the session was created"}, true)
		return
	}
	if r.ending != nil {
		go r.linger(r.ending)
		return
	}
	r.loneTimer = time.AfterFunc(r.lonePauseLocked(), r.lone)
}

// idleTimeoutLocked is the idle timeout of this session.
func (r *Runner) idleTimeoutLocked() time.Duration {
	if s := r.params.Params.IdleTimeoutS; s != nil {
		return seconds(*s)
	}
	return seconds(r.params.Limits.IdleTimeoutS)
}

// lonePauseLocked is how long a runner without a daemon waits before it looks whether its session must
// end: the idle timeout, or an hour.
func (r *Runner) lonePauseLocked() time.Duration {
	if idle := r.idleTimeoutLocked(); idle > 0 {
		return idle
	}
	return time.Hour
}

// lone ends a session without a daemon that has been idle for its idle timeout, and one whose directory
// was removed, with the socket in it: no daemon could connect to it any more, and its processes would
// stay permanently.
func (r *Runner) lone() {
	others := r.hasOthers()
	_, err := os.Stat(r.cfg.Dir)
	lost := errors.Is(err, fs.ErrNotExist)
	r.mu.Lock()
	idle := r.idleTimeoutLocked()
	rest := idle - time.Since(r.activity)
	if r.conn != nil || r.ending != nil {
		r.mu.Unlock()
		return
	}
	if idle <= 0 || r.current != nil || len(r.parallel) > 0 || others {
		rest = r.lonePauseLocked()
	}
	if rest > 0 && !lost {
		r.loneTimer.Reset(rest)
		r.mu.Unlock()
		return
	}
	r.unwanted = r.unwanted || lost // no daemon can fetch what is left
	r.mu.Unlock()
	cause := "idle timeout, while no daemon was connected"
	if lost {
		cause = "its directory was removed, and no daemon can connect to it"
	}
	r.destroy(link.DestroyParams{Cause: cause}, true)
}

// hello introduces the runner to a daemon whose protocol it speaks.
func (p *peer) hello(_ context.Context, q *link.Request[*link.HelloParams, *link.HelloResult]) error {
	r, h := p.runner, q.Params
	if h.Protocol < link.MinProtocol || h.Protocol > link.Protocol+1 {
		return api.Errorf(api.CodeRuntimeUnavailable,
			"session %q: its runner speaks protocol %d, the daemon %d: too far apart; use a daemon of version %s, or one release later or earlier", r.cfg.SessionID, link.Protocol, h.Protocol, r.cfg.Version)
	}
	old, err := r.welcome(p, h.Key)
	if err != nil {
		return err
	}
	r.mu.Lock()
	created := r.created
	r.mu.Unlock()
	// The runner speaks the protocol of an older daemon, which does not know the new one.
	q.Answer(&link.HelloResult{Version: r.cfg.Version, Protocol: min(link.Protocol, h.Protocol), SessionID: r.cfg.SessionID, PID: os.Getpid(), Created: created}, nil)
	// A daemon that loses its connection makes another one at once. If that happened before the
	// answer, the new connection would close this one without it.
	if old != nil {
		old.conn.Close()
	}
	return nil
}
