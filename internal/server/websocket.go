package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// goodbye is how long the end of a WebSocket waits for the client to agree.
const goodbye = time.Second

// webSocket answers /v1/ws: the line protocol, one JSON object per text message.
func (x *exchange) webSocket() {
	ws, err := websocket.Accept(x.w, x.r, &websocket.AcceptOptions{
		Subprotocols:       []string{protocolName},
		InsecureSkipVerify: true, // originAllowed has looked at it
	})
	if err != nil {
		x.log.Debug("websocket not opened", "error", err)
		return
	}
	ws.SetReadLimit(-1) // the reader of lines has its own
	s := x.http.server
	stream := &wsStream{ws: ws, cut: x.conn.cut, limit: x.conn.nc.SetWriteDeadline, timeout: s.cfg.WriteTimeout, lifetime: x.conn.ctx}
	c := s.newConn(x.conn.ctx, stream, x.conn.peer(), transportWebSocket, *x.caller)
	c.scope, c.only, c.closeEnds = x.scope, x.only, true
	if refusal := s.addConn(c); refusal != nil {
		if !c.shuttingDown() { // else the close code says it all
			c.sendError(nil, refusal)
			_ = c.writer.WaitRoom(x.ctx, 0)
		}
		c.close()
		c.writer.Close()
		c.writer.Wait()
		return
	}
	defer s.removeConn(c)
	alive := make(chan struct{})
	go func() {
		defer close(alive)
		if stream.keepAlive(c.ctx, x.http.cfg.KeepAlive) != nil {
			c.cancel(errClientGone) // the reader may be waiting for something else
		}
	}()
	if err := c.serve(); err != nil {
		c.log.Debug("websocket ended", "error", err)
	}
	<-alive
}

// wsStream makes lines of the messages of a WebSocket and messages of lines. Reading
// and writing are each done by one goroutine at a time; Close may come from any.
type wsStream struct {
	ws  *websocket.Conn
	cut func() // closes the connection below
	// lifetime is that of the connection below. Its end says why the WebSocket is closed.
	lifetime context.Context
	timeout  time.Duration             // for the client to take something
	limit    func(time.Time) error     // sets the deadline for it; see steadyConn
	wrote    atomic.Pointer[time.Time] // when that was last; nil: never

	message io.Reader      // that is being read; nil between two
	ended   bool           // a message was read, its line end not
	part    io.WriteCloser // of a line whose end has not been written; else nil
}

// Read reads the messages as lines. JSON may have line ends between its tokens; they
// become spaces.
func (s *wsStream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if s.ended {
			s.ended = false
			p[0] = '\n'
			return 1, nil
		}
		if s.message == nil {
			kind, message, err := s.ws.Reader(context.Background())
			switch {
			case websocket.CloseStatus(err) >= 0:
				return 0, io.EOF
			case err != nil:
				return 0, err
			case kind != websocket.MessageText:
				_ = s.ws.Close(websocket.StatusUnsupportedData, "messages must be text")
				return 0, errors.New("a message that is not text")
			}
			s.message = message
		}
		n, err := s.message.Read(p)
		for i, b := range p[:n] {
			if b == '\n' || b == '\r' {
				p[i] = ' '
			}
		}
		if errors.Is(err, io.EOF) {
			s.message, s.ended, err = nil, true, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write writes each line as a message. A long line may come in several pieces.
func (s *wsStream) Write(p []byte) (int, error) {
	_ = s.limit(time.Now().Add(s.timeout))
	defer func() {
		_ = s.limit(time.Time{})
		now := time.Now()
		s.wrote.Store(&now)
	}()
	for done := 0; done < len(p); {
		line, whole := p[done:], false
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line, whole = line[:n], true
		}
		if err := s.writeLine(line, whole); err != nil {
			return done, err
		}
		if done += len(line); whole {
			done++
		}
	}
	return len(p), nil
}

func (s *wsStream) writeLine(line []byte, whole bool) (err error) {
	if s.part == nil && whole {
		return s.ws.Write(context.Background(), websocket.MessageText, line)
	}
	if s.part == nil {
		if s.part, err = s.ws.Writer(context.Background(), websocket.MessageText); err != nil {
			return err
		}
	}
	if _, err = s.part.Write(line); err != nil || !whole {
		return err
	}
	err = s.part.Close()
	s.part = nil
	return err
}

// Close says goodbye and closes the connection. It does not wait long for an answer.
func (s *wsStream) Close() error {
	late := time.AfterFunc(goodbye, s.cut)
	defer late.Stop()
	return s.ws.Close(websocket.StatusNormalClosure, "")
}

// closeLoginOver is the close code of a client whose login or token is over: a new connection needs a
// new one.
const closeLoginOver websocket.StatusCode = 4401

// closeRevoked is the close code of a viewer whose share is over. The viewer cannot make a new one.
const closeRevoked websocket.StatusCode = 4403

// goAway is Close when the daemon stops or is replaced, and the client may connect again soon, or when
// the client's login, token or share is over.
func (s *wsStream) goAway() error {
	late := time.AfterFunc(goodbye, s.cut)
	defer late.Stop()
	switch context.Cause(s.lifetime) {
	case error(errTokenOver):
		return s.ws.Close(closeLoginOver, "the token is no longer valid")
	case error(errLoginOver):
		return s.ws.Close(closeLoginOver, "the login is over")
	case error(errShareOver):
		return s.ws.Close(closeRevoked, "the share was revoked, has expired, or lost its token")
	}
	return s.ws.Close(websocket.StatusServiceRestart, "the daemon stops, or is replaced")
}

// CloseNow closes the connection as it is.
func (s *wsStream) CloseNow() error {
	s.cut()
	return nil
}

// keepAlive sends a ping while the connection is silent, until ctx or the connection ends. A
// missing pong is no fault: TCP detects a client that has vanished.
func (s *wsStream) keepAlive(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if wrote := s.wrote.Load(); wrote != nil && time.Since(*wrote) < every {
			continue
		}
		// Not of ctx: a context that ends while it is written closes the connection.
		pong, cancel := context.WithTimeout(context.Background(), every)
		err := s.ws.Ping(pong)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}
