package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func frame(output byte, data string) string {
	var h [8]byte
	h[0] = output
	binary.BigEndian.PutUint32(h[4:], uint32(len(data)))
	return string(h[:]) + data
}

func TestStream(t *testing.T) {
	long := strings.Repeat("x", 10000)
	for _, c := range []struct {
		name, in, out, err string
		end                error
	}{
		{"nothing", "", "", "", nil},
		{"both outputs", frame(1, "one") + frame(2, "wrong") + frame(1, " two"), "one two", "wrong", nil},
		{"empty frames", frame(1, "") + frame(2, "") + frame(1, "a"), "a", "", nil},
		{"an error of the engine", frame(3, "no such exec"), "", "no such exec", nil},
		{"much on stderr", frame(2, long) + frame(2, "end") + frame(1, "x"), "x", long[:tailSize-3] + "end", nil},
		{"cut in a header", frame(1, "one") + "\x01\x00", "one", "", io.ErrUnexpectedEOF},
		{"cut in the data", frame(1, "one")[:9], "o", "", io.ErrUnexpectedEOF},
		{"cut in stderr", frame(2, "wrong")[:10], "", "wr", io.ErrUnexpectedEOF},
		{"no frames", "panic: something", "", "", errors.New("any")},
		{"unknown output", frame(9, "x"), "", "", errors.New("any")},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, from := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
				s := &stream{from: from}
				out, err := io.ReadAll(s)
				if string(out) != c.out || s.stderr.String() != c.err {
					t.Errorf("stdout %q, stderr %q; want %q and %q", out, s.stderr.String(), c.out, c.err)
				}
				if (err == nil) != (c.end == nil) || errors.Is(c.end, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("the stream ended with %v, want %v", err, c.end)
				}
			}
		})
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(frame(1, "one")+frame(2, "two")), uint8(3))
	f.Add([]byte("garbage that is no frame"), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		s := &stream{from: bytes.NewReader(in)}
		buffer := make([]byte, int(size)+1)
		total := 0
		for {
			n, err := s.Read(buffer)
			total += n
			if err != nil {
				break
			}
			if n == 0 {
				t.Fatal("a read returned nothing and no error")
			}
		}
		if total > len(in) || len(s.stderr.kept) > tailSize {
			t.Fatalf("%d bytes of stdout and %d of stderr from %d", total, len(s.stderr.kept), len(in))
		}
	})
}
