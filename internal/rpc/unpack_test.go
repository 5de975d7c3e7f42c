package rpc_test

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/trl-dev/trl/internal/rpc"
)

// FuzzUnpack: unpack returns the same frame as the generated code, and refuses the same bytes.
func FuzzUnpack(f *testing.F) {
	packed, err := proto.Marshal(&rpc.Frame{Message: []byte(`{"id":1}`), Raw: map[string][]byte{"data": []byte("\x00\xff"), "": nil}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add(append(bytes.Clone(packed), packed...))
	f.Add(packed[:len(packed)-1])
	f.Add([]byte("\x18\x05\x0a\x01m\x12\x06\x0a\x01a\x18\x01\x12"))
	f.Add([]byte("\x12\x03\x0a\x01\xff"))
	f.Add([]byte("\xf5\xf5\xf5\xf5\x12\x00\x00\x00\x00")) // a field number that is too large
	f.Add([]byte("\x12\x05\x0a\x01\xff\x0a\x00"))         // two names, of which the first is not UTF-8
	f.Fuzz(func(t *testing.T, b []byte) {
		var want, got rpc.Frame
		wantErr := proto.Unmarshal(b, &want)
		err := rpc.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes.Clone(b))}, &got)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, the generated code says %v", b, err, wantErr)
		}
		if err != nil {
			return
		}
		want.ProtoReflect().SetUnknown(nil)
		if !proto.Equal(&got, &want) {
			t.Fatalf("%q: %v, want %v", b, &got, &want)
		}
	})
}
