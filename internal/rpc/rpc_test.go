package rpc_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/rpc"
	"github.com/trl-dev/trl/internal/wire"
)

// TestPackedFrames: an Unpacker finds queued frames again, however the bytes are divided into
// pieces.
func TestPackedFrames(t *testing.T) {
	var queue []byte
	var want []*rpc.Frame
	for _, size := range []int{0, 1, 100, 3, 0, 5000, 70} {
		f := &rpc.Frame{Message: bytes.Repeat([]byte("m"), size)}
		if size%2 == 1 {
			f.Raw = map[string][]byte{"data": bytes.Repeat([]byte{0xff}, size), "": nil}
		}
		packed, err := rpc.Pack(f.Message, f.Raw)
		if err != nil {
			t.Fatal(err)
		}
		queue, want = append(queue, packed...), append(want, f)
	}
	for size := 1; size <= len(queue); size += 1 + size/10 {
		var u rpc.Unpacker
		n := 0
		for rest := queue; len(rest) > 0; {
			piece := rest[:min(size, len(rest))]
			rest = rest[len(piece):]
			for {
				var packed rpc.Packed
				if packed, piece = u.Next(piece); packed == nil {
					break
				}
				var got rpc.Frame
				if err := proto.Unmarshal(packed, &got); err != nil || n >= len(want) || !proto.Equal(&got, want[n]) {
					t.Fatalf("pieces of %d, frame %d: %v, %v", size, n, &got, err)
				}
				n++
			}
		}
		if n != len(want) {
			t.Errorf("pieces of %d: %d frames", size, n)
		}
	}
}

// TestPackPush: PackPush returns the same bytes as the generated code.
func TestPackPush(t *testing.T) {
	for _, c := range [][2]string{{"{}", "x"}, {"", ""}, {"{}", ""}, {strings.Repeat("m", 300), strings.Repeat("\xff", 1<<17)}, {"", "\x00"}} {
		var raw wire.Raw
		if c[1] != "" {
			raw = wire.Raw{"data": []byte(c[1])}
		}
		want, err := rpc.Pack([]byte(c[0]), raw)
		if err != nil {
			t.Fatal(err)
		}
		var a, b rpc.Frame
		for _, got := range [][]byte{rpc.PackPush([]byte(c[0]), []byte(c[1]))} {
			if len(got) != cap(got) || proto.Unmarshal(got[4:], &a) != nil || proto.Unmarshal(want[4:], &b) != nil || !proto.Equal(&a, &b) {
				t.Errorf("%.20q: %.50q, want %.50q", c, got, want)
			}
			var u rpc.Unpacker
			if frame, rest := u.Next(got); frame == nil || len(rest) > 0 {
				t.Errorf("%.20q: %d bytes are left", c, len(rest))
			}
		}
	}
}

func TestCodec(t *testing.T) {
	c := rpc.Codec()
	f := &rpc.Frame{Message: []byte("{}"), Raw: map[string][]byte{"data": []byte("x")}}
	packed, err := rpc.Pack(f.Message, f.Raw)
	if err != nil || c.Name() != "proto" {
		t.Fatal(c.Name(), err)
	}
	plain, err := c.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	asItIs, err := c.Marshal(rpc.Packed(packed[4:]))
	if err != nil || !bytes.Equal(plain.Materialize(), asItIs.Materialize()) {
		t.Errorf("%v, %v", asItIs, err)
	}
	var got rpc.Frame
	if err := c.Unmarshal(asItIs, &got); err != nil || !proto.Equal(&got, f) {
		t.Errorf("%v, %v", &got, err)
	}
}

func TestStatus(t *testing.T) {
	for _, info := range api.Codes {
		e := api.Errorf(info.Code, "thing: cause: more %%")
		err := rpc.Status(e)
		var code codes.Code
		if unmarshal := code.UnmarshalJSON([]byte(`"` + info.GRPC + `"`)); unmarshal != nil || status.Code(err) != code || code == codes.OK {
			t.Errorf("%s: %v, %v", info.Code, err, unmarshal)
		}
		if got, ok := rpc.FromStatus(err); !ok || got.Code != e.Code || got.Message != e.Message {
			t.Errorf("%v, %v", got, ok)
		}
	}
	if got, ok := rpc.FromStatus(status.Error(codes.ResourceExhausted, "grpc: received message larger than max (2 vs. 1)")); !ok || got.Code != api.CodeRequestTooLarge {
		t.Errorf("%v, %v", got, ok)
	}
	for _, err := range []error{nil, io.EOF, errors.New("AUTH_FAILED: x"), status.Error(codes.Unavailable, "transport is closing"), status.Error(codes.Unknown, "")} {
		if got, ok := rpc.FromStatus(err); ok {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// FuzzFrame: any bytes that arrive as a frame are refused or become a line, and a frame is the
// same after it was packed and unpacked.
func FuzzFrame(f *testing.F) {
	for _, seed := range []*rpc.Frame{
		{}, {Message: []byte(`{"id":1,"method":"m","params":{}}`), Raw: map[string][]byte{"data": []byte("\x00\xff")}},
		{Raw: map[string][]byte{"": nil, "a": []byte("x")}},
	} {
		b, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x12, 0x05, 0x0a, 0x01, 0xff, 0x12, 0x00})
	f.Fuzz(func(t *testing.T, b []byte) {
		var frame rpc.Frame
		if proto.Unmarshal(b, &frame) != nil {
			return
		}
		packed, err := rpc.Pack(frame.Message, frame.Raw)
		if err != nil {
			t.Fatal(err)
		}
		var u rpc.Unpacker
		half := len(packed) / 2
		first, rest := u.Next(packed[:half])
		if first == nil {
			first, rest = u.Next(packed[half:])
		}
		var again rpc.Frame
		if first == nil || len(rest) > 0 || proto.Unmarshal(first, &again) != nil ||
			!bytes.Equal(again.Message, frame.Message) || len(again.Raw) != len(frame.Raw) {
			t.Fatalf("%v became %v", &frame, &again)
		}
		if line := wire.JoinRequest(frame.Message, frame.Raw); bytes.ContainsAny(line, "\r\n") {
			t.Errorf("%q", line)
		}
	})
}

// FuzzUnpacker: an Unpacker accepts any bytes in any pieces.
func FuzzUnpacker(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 0xff, 0xff, 0xff, 0xff}, 3)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		size = max(1, min(size, 1<<16))
		var u rpc.Unpacker
		for len(b) > 0 {
			piece := b[:min(size, len(b))]
			b = b[len(piece):]
			for {
				var frame rpc.Packed
				if frame, piece = u.Next(piece); frame == nil {
					break
				}
			}
		}
	})
}
