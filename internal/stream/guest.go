package stream

import (
	"context"
	"io"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
)

// guestPiece is the most bytes of a runner in one push.
const guestPiece = 128 << 10

// guest is the stream of guest.connect: the bytes of a runner.
type guest struct {
	ctx    context.Context
	conn   *session.GuestConnection
	start  api.StreamStart
	over   func()
	stop   func() bool
	close  sync.Once
	buffer []byte
	seq    int64
	ended  bool
	offset int64
}

// NewGuest makes the stream of the bytes of a guest's runner. It owns the connection, and calls over when
// it is closed.
func NewGuest(ctx context.Context, conn *session.GuestConnection, start api.StreamStart, over func()) api.ByteStream {
	g := &guest{ctx: ctx, conn: conn, start: start, over: over, buffer: make([]byte, guestPiece)}
	g.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return g
}

func (g *guest) Start() api.StreamStart { return g.start }

func (g *guest) Recv() (api.StreamEvent, error) {
	ev, data, err := g.RecvBytes()
	ev.Data, ev.DataBase64 = api.Text(data)
	return ev, err
}

func (g *guest) RecvBytes() (api.StreamEvent, []byte, error) {
	if g.ended {
		return api.StreamEvent{}, nil, io.EOF
	}
	n, err := g.conn.Read(g.buffer)
	g.seq++
	if n == 0 && err != nil {
		if g.ctx.Err() != nil {
			return api.StreamEvent{}, nil, context.Cause(g.ctx)
		}
		g.ended = true
		return api.StreamEvent{StreamID: g.start.StreamID, Seq: g.seq, Type: api.EventEnd}, nil, nil
	}
	offset := g.offset
	g.offset += int64(n)
	return api.StreamEvent{StreamID: g.start.StreamID, Seq: g.seq, Type: api.EventBytes, Offset: &offset}, g.buffer[:n], nil
}

func (g *guest) Close() error {
	var err error
	g.close.Do(func() {
		g.stop()
		g.over()
		err = g.conn.Close()
	})
	return err
}
