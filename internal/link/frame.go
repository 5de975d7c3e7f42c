package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Kind is the kind of a frame.
type Kind byte

// The kinds of frames.
const (
	KindRequest  Kind = 1 // Name, Header = params
	KindResponse Kind = 2 // Header = result
	KindError    Kind = 3 // Header = api.Error
	KindCancel   Kind = 4 // the caller of request ID no longer waits
	KindEvent    Kind = 5 // Name, Header = the event; ID is 0
)

// MaxFrame bounds the memory that a frame of the other side can take.
const MaxFrame = 256 << 20

const headLen = 4 + 1 + 4 + 1 + 4

// Frame is one message.
//
// On the wire, big-endian: u32 length of the rest, u8 kind, u32 id,
// u8 length of name, u32 length of header, name, header, body.
type Frame struct {
	Kind   Kind
	ID     uint32
	Name   string
	Header []byte
	Body   []byte
}

// ErrFrame is the error of a malformed frame. The stream cannot be used after it.
var ErrFrame = errors.New("malformed frame")

// appendHead appends everything but the body.
func (f *Frame) appendHead(b []byte) ([]byte, error) {
	n := headLen - 4 + len(f.Name) + len(f.Header) + len(f.Body)
	if len(f.Name) > 255 || n > MaxFrame {
		return b, fmt.Errorf("%w: %d bytes to send, at most %d", ErrFrame, n, MaxFrame)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = append(b, byte(f.Kind))
	b = binary.BigEndian.AppendUint32(b, f.ID)
	b = append(b, byte(len(f.Name)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Header)))
	b = append(b, f.Name...)
	return append(b, f.Header...), nil
}

// ReadFrame reads one frame. It returns io.EOF only between frames.
func ReadFrame(r io.Reader) (Frame, error) {
	var head [headLen]byte
	if _, err := io.ReadFull(r, head[:4]); err != nil {
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n < headLen-4 || n > MaxFrame {
		return Frame{}, fmt.Errorf("%w: length %d", ErrFrame, n)
	}
	if _, err := io.ReadFull(r, head[4:]); err != nil {
		return Frame{}, unexpected(err)
	}
	f := Frame{Kind: Kind(head[4]), ID: binary.BigEndian.Uint32(head[5:])}
	nameLen, headerLen := uint32(head[9]), binary.BigEndian.Uint32(head[10:])
	rest := n - (headLen - 4)
	if f.Kind < KindRequest || f.Kind > KindEvent || nameLen > rest || headerLen > rest-nameLen {
		return Frame{}, fmt.Errorf("%w: kind %d, name %d, header %d of %d bytes", ErrFrame, f.Kind, nameLen, headerLen, rest)
	}
	buf, err := readN(r, int(nameLen+headerLen))
	if err != nil {
		return Frame{}, unexpected(err)
	}
	f.Name, f.Header = string(buf[:nameLen]), buf[nameLen:]
	if f.Body, err = readN(r, int(rest-nameLen-headerLen)); err != nil {
		return Frame{}, unexpected(err)
	}
	return f, nil
}

// bodies are the buffers of released large bodies, for the next ones: clearing and collecting
// each of them would cost more than filling it.
var bodies sync.Pool // of *[]byte

// largeBody is the size from which on a buffer is worth keeping.
const largeBody = 32 << 10

// Release gives back the body of a frame. The caller must not use it afterwards. Bodies that are
// not released are collected as garbage.
func Release(body []byte) {
	if cap(body) >= largeBody && cap(body) <= maxStep {
		bodies.Put(&body)
	}
}

// buffer returns a slice of n bytes.
func buffer(n int) []byte {
	if n >= largeBody {
		if b, ok := bodies.Get().(*[]byte); ok && cap(*b) >= n {
			return (*b)[:n]
		}
	}
	return make([]byte, n)
}

// maxStep is how many bytes are read at once, and the size of the largest buffer that is kept.
const maxStep = 1<<20 + 64<<10

// readN reads exactly n bytes. It reads large frames piece by piece, so that a peer that only
// announces a length does not make us allocate it.
func readN(r io.Reader, n int) ([]byte, error) {
	buf := buffer(min(n, maxStep))
	for got := 0; ; {
		m, err := io.ReadFull(r, buf[got:])
		got += m
		if err != nil {
			return nil, err
		}
		if got == n {
			return buf, nil
		}
		bigger := make([]byte, min(n, 2*len(buf)))
		copy(bigger, buf)
		buf = bigger
	}
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
