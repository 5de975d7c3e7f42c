package docker

import (
	"encoding/binary"
	"fmt"
	"io"
)

// stream separates the two outputs of a program, which the engine sends as one stream of frames:
// one byte for the output, three zeros, the length in four bytes, the data. Reading returns what the
// program wrote to stdout. Not safe for concurrent use.
type stream struct {
	from   io.Reader
	header [8]byte
	left   uint32 // bytes of stdout that are left in the current frame
	stderr tail
}

const (
	fromStdin  = 0 // the engine's echo of stdin: never sent without a terminal
	fromStdout = 1
	fromStderr = 2
	fromEngine = 3 // an error of the engine itself
)

// Read returns io.EOF only between frames: an end inside a frame is io.ErrUnexpectedEOF.
func (s *stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for s.left == 0 {
		if _, err := io.ReadFull(s.from, s.header[:]); err != nil {
			return 0, err
		}
		size := binary.BigEndian.Uint32(s.header[4:])
		if s.header[1]|s.header[2]|s.header[3] != 0 {
			return 0, fmt.Errorf("the engine's stream has no frame where one must begin (% x)", s.header)
		}
		switch s.header[0] {
		case fromStdin, fromStdout:
			s.left = size
		case fromStderr, fromEngine:
			if n, err := io.CopyN(&s.stderr, s.from, int64(size)); err != nil {
				if n < int64(size) && err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				return 0, err
			}
		default:
			return 0, fmt.Errorf("the engine's stream has a frame of the unknown output %d", s.header[0])
		}
	}
	if uint32(len(p)) > s.left {
		p = p[:s.left]
	}
	n, err := s.from.Read(p)
	s.left -= uint32(n)
	if err == io.EOF && (s.left > 0 || n > 0) {
		if err = nil; n == 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// tail keeps the last 4 KiB that were written to it.
type tail struct{ kept []byte }

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - tailSize; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.kept) }
