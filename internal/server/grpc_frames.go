package server

import (
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/trl-dev/trl/internal/rpc"
	"github.com/trl-dev/trl/internal/wire"
)

// frameStream makes lines of the frames of a call, and sends packed ones. Reading and
// writing are each done by one goroutine at a time, which the end of the call lets go.
type frameStream struct {
	stream  grpc.ServerStream
	timeout time.Duration
	stalled *time.Timer // runs while something is sent

	line   []byte // rest of the frame that is being read
	body   []byte // what came beside the last line, until it is taken
	frames rpc.Unpacker
	ahead  int // size of the frame before, which may still be on its way
}

// Read reads the frames as lines.
func (s *frameStream) Read(p []byte) (int, error) {
	for len(s.line) == 0 {
		var f rpc.Frame
		if err := s.stream.RecvMsg(&f); err != nil {
			if err != io.EOF {
				err = io.ErrUnexpectedEOF // as on a broken connection; package grpc has sent the client the reason
			}
			return 0, err
		}
		if s.body = wire.Beside(f.Message, f.Raw); s.body != nil {
			f.Raw = nil
		}
		s.line = append(wire.JoinRequest(f.Message, f.Raw), '\n')
	}
	n := copy(p, s.line)
	s.line = s.line[n:]
	return n, nil
}

// takeBody returns the bytes that came beside the line that was read last: each frame is one
// line, and none is read before the line before it is taken.
func (s *frameStream) takeBody() []byte {
	body := s.body
	s.body = nil
	return body
}

// Write sends the frames that are complete. A frame counts as taken when there is room
// for the next; a large one may take longer.
func (s *frameStream) Write(p []byte) (int, error) {
	defer s.stalled.Stop()
	for rest := p; ; {
		var frame rpc.Packed
		if frame, rest = s.frames.Next(rest); frame == nil {
			return len(p), nil
		}
		s.stalled.Reset(s.timeout * time.Duration(1+s.ahead>>20))
		if err := s.stream.SendMsg(frame); err != nil {
			return 0, err
		}
		s.ahead = len(frame)
	}
}

// Close does nothing: the call ends when it returns.
func (s *frameStream) Close() error { return nil }
