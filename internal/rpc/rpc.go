// Package rpc carries the line protocol in the frames of gRPC. There is one service with one
// call, and each call is a connection. A frame has the JSON of a message and, beside it, the bytes
// that JSON would have to escape (see wire.Raw).
package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that Codec looks up
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/trl-dev/trl/internal/wire"
)

//go:generate sh -c "protoc --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --plugin=protoc-gen-go-grpc=$(go tool -n protoc-gen-go-grpc) --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative,require_unimplemented_servers=false -I ../../api/proto/trl/v1 trl.proto"

// lengthBytes is the size of the length at the beginning of a packed frame.
const lengthBytes = 4

// maxGrow limits the memory that is allocated at once for a frame that arrives in pieces.
const maxGrow = 1 << 20

// Pack returns a packed frame of a message and its raw bytes: a length and the frame, so that
// frames can be queued one after another in a slice of bytes.
func Pack(message []byte, raw wire.Raw) ([]byte, error) {
	f := &Frame{Message: message, Raw: raw}
	size := proto.Size(f)
	b := make([]byte, lengthBytes, lengthBytes+size)
	binary.BigEndian.PutUint32(b, uint32(size))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, f)
}

// PackPush returns a packed frame of a push and its raw bytes, which become the entry "data". It
// writes the protobuf by hand, which is faster than Pack: most of the bytes that leave the daemon
// are pushes.
func PackPush(message, data []byte) []byte {
	entry := protowire.SizeTag(1) + protowire.SizeBytes(len(dataName)) + protowire.SizeTag(2) + protowire.SizeBytes(len(data))
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(message))
	if len(data) > 0 {
		size += protowire.SizeTag(2) + protowire.SizeBytes(entry)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, lengthBytes+size), uint32(size))
	b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), message)
	if len(data) > 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.BytesType), uint64(entry))
		b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), dataName)
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.BytesType), uint64(len(data)))
		b = append(b, data...)
	}
	return b
}

const dataName = "data"

// Packed is the protobuf of a frame, without its length. Codec sends it unchanged.
type Packed []byte

// Unpacker splits a stream of packed frames, which arrives in pieces.
type Unpacker struct{ part []byte } // the beginning of an incomplete frame, with its length

// Next returns the first frame that is complete after piece, and the rest of piece. The frame is
// nil if more is needed. Both may share memory with piece.
func (u *Unpacker) Next(piece []byte) (frame Packed, rest []byte) {
	if len(u.part) > 0 {
		need := lengthBytes - len(u.part)
		if need <= 0 {
			need += int(binary.BigEndian.Uint32(u.part))
		}
		take := min(need, len(piece))
		u.part, piece = append(slices.Grow(u.part, min(need, maxGrow)), piece[:take]...), piece[take:]
		if take < need {
			return nil, nil
		}
		if len(u.part) == lengthBytes && binary.BigEndian.Uint32(u.part) > 0 {
			return u.Next(piece) // the length is complete now
		}
		frame = u.part[lengthBytes:]
		u.part = nil
		return frame, piece
	}
	if len(piece) >= lengthBytes {
		if size := lengthBytes + int(binary.BigEndian.Uint32(piece)); size <= len(piece) {
			return Packed(piece[lengthBytes:size:size]), piece[size:]
		}
	}
	u.part = append(u.part, piece...)
	return nil, nil
}

// Buffers is the pool of buffers for frames, for both ends. The pool of package grpc itself has no
// size between 32 KiB and 1 MiB, and clears a whole buffer each time.
var Buffers = func() mem.BufferPool {
	pool, err := mem.NewBinaryTieredBufferPool(8, 12, 14, 15, 16, 17, 18, 19, 20)
	if err != nil {
		panic(err) // only for invalid sizes
	}
	return pool
}()

// Codec returns the codec of protobuf that also accepts Packed frames.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if frame, ok := v.(Packed); ok {
		return mem.BufferSlice{mem.SliceBuffer(frame)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2. It copies the received bytes of a frame once; the
// generated code would copy them again.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*Frame)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	return unpack(data.Materialize(), f)
}

// unpack decodes the protobuf of a frame. The frame shares memory with b.
func unpack(b []byte, f *Frame) error {
	f.Reset()
	return fields(b, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			f.Message = value
		case 2:
			var name, data []byte
			if err := fields(value, func(number protowire.Number, value []byte) error {
				switch number {
				case 1:
					if !utf8.Valid(value) {
						return errors.New("frame: a name in raw is not UTF-8")
					}
					name = value
				case 2:
					data = value
				}
				return nil
			}); err != nil {
				return err
			}
			if f.Raw == nil {
				f.Raw = wire.Raw{}
			}
			f.Raw[string(name)] = data
		}
		return nil
	})
}

// fields calls each with every field of a protobuf message that contains bytes, and skips the
// others.
func fields(b []byte, each func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if !number.IsValid() { // ConsumeTag accepts numbers that are too large
			return fmt.Errorf("frame: %d is not a field number", number)
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := each(number, value[:len(value):len(value)]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
