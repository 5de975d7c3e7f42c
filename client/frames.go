package client

import (
	"bytes"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/rpc"
	"github.com/trl-dev/trl/internal/wire"
)

// frames is a stream of pushes with a gRPC call of its own. Only one goroutine at a time may call
// Recv; Close may be called at any time, and ends a Recv.
type frames struct {
	link   *link
	ctx    context.Context
	end    context.CancelFunc
	stream grpc.BidiStreamingClient[rpc.Frame, rpc.Frame]
	start  api.StreamStart
}

// ask makes a gRPC call with one request, a line, and reads its answer.
func (l *link) ask(ctx context.Context, line []byte) (*frames, wire.Message, error) {
	f := &frames{link: l}
	f.ctx, f.end = context.WithCancel(ctx)
	var err error
	if f.stream, err = l.begin(f.ctx); err != nil {
		f.end()
		return nil, wire.Message{}, l.failed(ctx, err, false)
	}
	message, raw := wire.SplitRequest(bytes.TrimSuffix(line, []byte("\n")))
	_ = f.stream.Send(&rpc.Frame{Message: message, Raw: raw}) // if this fails, receiving returns the reason
	answer, err := f.stream.Recv()
	if err != nil {
		_ = f.Close()
		return nil, wire.Message{}, l.failed(ctx, err, true)
	}
	m, err := wire.ParseMessage(wire.JoinAnswer(answer.Message, answer.Raw))
	if err == nil && m.Error != nil {
		err = m.Error
	} else if err != nil {
		err = &lost{cause: connectionLost(err), sent: true}
	}
	if err != nil {
		_ = f.Close()
		return nil, wire.Message{}, err
	}
	return f, m, nil
}

// failed explains the end of a gRPC call. sent says that the request had been sent.
func (l *link) failed(ctx context.Context, err error, sent bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := rpc.FromStatus(err); ok {
		if passes(e) {
			return &lost{cause: e} // the daemon sent this before it read anything
		}
		return e
	}
	if refusal := refusedByTLS(l.way.url, l.nc.failure()); refusal != nil {
		return refusal
	}
	if foreign := notTRL(l.way.url, err); foreign != nil {
		return foreign
	}
	return &lost{cause: connectionLost(l.reason(err)), sent: sent}
}

// notTRL returns the error of a server that does not know the TRL service; nil for other errors.
func notTRL(url string, err error) error {
	if status.Code(err) != codes.Unimplemented {
		return nil
	}
	return api.Errorf(api.CodeInternal, "daemon at %s: %s: the server there may not be a TRL daemon", url, status.Convert(err).Message())
}

// reason returns why the connection was lost, with the error of the system if there is one.
func (l *link) reason(err error) error {
	if known := l.nc.failure(); known != nil {
		return known
	}
	if errors.Is(err, io.EOF) {
		return err
	}
	return errors.New(status.Convert(err).Message())
}

// Start is the immediate answer.
func (f *frames) Start() api.StreamStart { return f.start }

// Recv returns the next push. The type of a push says whether it is the last; if the stream ends
// without one, the connection was lost.
func (f *frames) Recv() (api.StreamEvent, error) { return withText(f.RecvBytes()) }

// RecvBytes is Recv, but returns output as bytes instead of in the push.
func (f *frames) RecvBytes() (api.StreamEvent, []byte, error) {
	for {
		frame, err := f.stream.Recv()
		if err != nil {
			return api.StreamEvent{}, nil, f.link.failed(f.ctx, err, true)
		}
		m, err := wire.ParseMessage(frame.Message)
		if err != nil {
			return api.StreamEvent{}, nil, &lost{cause: connectionLost(err), sent: true}
		}
		if m.Event == nil {
			continue // a message that is newer than this client
		}
		if m.Event.Type == api.EventError {
			return api.StreamEvent{}, nil, brokeOff(m.Event)
		}
		return *m.Event, frame.Raw["data"], nil
	}
}

// Close closes the stream.
func (f *frames) Close() error {
	f.end()
	return nil
}

// frameLines presents a gRPC call as a connection with lines, for calls. Only one goroutine at a time
// may read, and one write; any goroutine may call Close.
type frameLines struct {
	link   *link
	stream grpc.BidiStreamingClient[rpc.Frame, rpc.Frame]
	line   []byte     // the rest of the line that is being read
	ended  error      // what Read returns after line
	part   []byte     // the beginning of a line whose end has not been written yet
	body   *rpc.Frame // a frame whose raw bytes have not all been written yet
	need   int        // how many of them are missing
}

// Read reads the frames as lines. The last line is the daemon's error for the call as a whole, if
// there is one.
func (s *frameLines) Read(p []byte) (int, error) {
	for len(s.line) == 0 {
		if s.ended != nil {
			return 0, s.ended
		}
		frame, err := s.stream.Recv()
		if err == nil {
			s.line = append(wire.JoinAnswer(frame.Message, frame.Raw), '\n')
			continue
		}
		if refusal, ok := rpc.FromStatus(err); ok {
			e := wire.NewEncoder()
			e.Error(nil, refusal)
			s.line, s.ended = bytes.Clone(e.Bytes()), io.EOF
			e.Release()
			continue
		}
		if s.ended = refusedByTLS(s.link.way.url, s.link.nc.failure()); s.ended == nil {
			s.ended = notTRL(s.link.way.url, err)
		}
		if s.ended == nil {
			s.ended = s.link.reason(err)
		}
	}
	n := copy(p, s.line)
	s.line = s.line[n:]
	return n, nil
}

// Write sends each line in a frame, with the raw bytes after it. Both may come in several pieces.
// If the connection can no longer send, the reading side reports the cause.
func (s *frameLines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if s.body != nil {
			n := min(s.need, len(rest))
			s.body.Raw["data"] = append(s.body.Raw["data"], rest[:n]...)
			rest = rest[n:]
			if s.need -= n; s.need > 0 {
				break
			}
			frame := s.body
			if s.body = nil; s.stream.Send(frame) != nil {
				break
			}
			continue
		}
		n := bytes.IndexByte(rest, '\n')
		if n < 0 {
			s.part = append(s.part, rest...)
			break
		}
		line := rest[:n]
		if len(s.part) > 0 {
			line = append(s.part, line...)
			s.part = nil
		}
		rest = rest[n+1:]
		if s.need = wire.RawLength(line); s.need > 0 {
			s.body = &rpc.Frame{Message: bytes.Clone(line), Raw: wire.Raw{"data": make([]byte, 0, s.need)}}
			continue
		}
		message, raw := wire.SplitRequest(line)
		if s.stream.Send(&rpc.Frame{Message: message, Raw: raw}) != nil {
			break
		}
	}
	return len(p), nil
}

// Close ends the call.
func (s *frameLines) Close() error {
	s.link.end()
	return nil
}
