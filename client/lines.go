package client

import (
	"context"
	"errors"
	"io"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

// lines is a stream with a connection of its own. It reads a push only when the consumer asks for
// one; the other pushes stay with the daemon. Only one goroutine at a time may call Recv; Close may
// be called at any time, and ends a Recv.
type lines struct {
	src    io.ReadCloser
	reader *wire.Reader
	start  api.StreamStart
	body   []byte      // output of the last push, reused for the next
	stop   func() bool // stops watching the context
}

// newLines reads from src, which it owns, until ctx ends.
func newLines(ctx context.Context, src io.ReadCloser) *lines {
	return &lines{
		src: src, reader: wire.NewReader(src, maxAnswer, keepBuffer, nil),
		stop: context.AfterFunc(ctx, func() { _ = src.Close() }),
	}
}

// Start is the immediate answer.
func (l *lines) Start() api.StreamStart { return l.start }

// Recv returns the next push. The type of a push says whether it is the last; if the stream ends
// without one, the connection was lost.
func (l *lines) Recv() (api.StreamEvent, error) { return withText(l.RecvBytes()) }

// RecvBytes is Recv, but may return output as bytes instead of in the push.
func (l *lines) RecvBytes() (api.StreamEvent, []byte, error) {
	for {
		m, err := l.message()
		if err != nil {
			return api.StreamEvent{}, nil, err
		}
		if m.Event == nil {
			continue // a message that is newer than this client
		}
		if m.Event.Type == api.EventError {
			return api.StreamEvent{}, nil, brokeOff(m.Event)
		}
		var data []byte
		if m.Raw > 0 {
			if data, err = l.reader.Body(m.Raw, l.body); err != nil {
				return api.StreamEvent{}, nil, &lost{cause: connectionLost(err), sent: true}
			}
			l.body = data
		}
		return *m.Event, data, nil
	}
}

// withText puts the output of a push into it.
func withText(ev api.StreamEvent, data []byte, err error) (api.StreamEvent, error) {
	if data != nil {
		ev.Data, ev.DataBase64 = api.Text(data)
	}
	return ev, err
}

// message reads one line. Its error is always the loss of the connection.
func (l *lines) message() (wire.Message, error) {
	line, err := l.reader.Next()
	var m wire.Message
	if err == nil {
		m, err = wire.ParseMessage(line)
	}
	if err != nil {
		return m, &lost{cause: connectionLost(err), sent: true}
	}
	return m, nil
}

// Close closes the stream.
func (l *lines) Close() error {
	l.stop()
	return l.src.Close()
}

// brokeOff returns the error with which a stream ends.
func brokeOff(ev *api.StreamEvent) error {
	if ev.Error == nil {
		return api.Errorf(api.CodeInternal, "stream %s: ended early without a reason", ev.StreamID)
	}
	return ev.Error
}

func connectionLost(cause error) *api.Error {
	var refused *wire.Refused
	var known *api.Error
	switch {
	case errors.As(cause, &known): // the daemon sent it
		return known
	case errors.Is(cause, io.EOF):
		cause = errors.New("the daemon closed it")
	case errors.As(cause, &refused):
		return api.Errorf(api.CodeRuntimeUnavailable, "daemon: connection lost: an answer of more than %d bytes", maxAnswer)
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "daemon: connection lost: %s", cause)
}
