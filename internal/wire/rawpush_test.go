package wire_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

// TestRawPush: a push with raw bytes is read as it was written, also between other lines and in
// pieces of any size.
func TestRawPush(t *testing.T) {
	var sent bytes.Buffer
	bodies := []string{"\n{}\n", "\x00\xff", strings.Repeat("x\n", 100_000), "y"}
	for i, body := range bodies {
		offset := int64(i)
		e := wire.NewEncoder()
		if err := e.RawEvent(&api.StreamEvent{StreamID: "x-1", Seq: int64(i), Type: api.EventStdout, Offset: &offset}, len(body)); err != nil {
			t.Fatal(err)
		}
		sent.Write(e.Bytes())
		sent.WriteString(body + `{"id":"7","ok":true,"data":1}` + "\n")
		e.Release()
	}
	e := wire.NewEncoder()
	defer e.Release()
	if err := e.RawEvent(&api.StreamEvent{Type: api.EventExit}, 1); err == nil || len(e.Bytes()) > 0 {
		t.Errorf("a push without an offset: %v, %q", err, e.Bytes())
	}
	for _, src := range []io.Reader{bytes.NewReader(sent.Bytes()), iotest.OneByteReader(bytes.NewReader(sent.Bytes())), iotest.DataErrReader(bytes.NewReader(sent.Bytes()))} {
		r := wire.NewReader(src, 1<<20, 0, nil)
		for i, body := range bodies {
			line, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			m, err := wire.ParseMessage(line)
			if err != nil || m.Event == nil || m.Raw != len(body) || *m.Event.Offset != int64(i) {
				t.Fatalf("%q: %+v, %v", line, m, err)
			}
			got, err := r.Body(m.Raw, nil)
			if err != nil || string(got) != body {
				t.Fatalf("body %d: %d bytes, %v", i, len(got), err)
			}
			if line, err = r.Next(); err != nil || !strings.HasPrefix(string(line), `{"id":"7"`) {
				t.Fatalf("%q, %v", line, err)
			}
		}
		if line, err := r.Next(); err != io.EOF {
			t.Errorf("%q, %v", line, err)
		}
	}
}

// TestRawPushCutOff: missing raw bytes are an error, and so is an impossible number of them.
func TestRawPushCutOff(t *testing.T) {
	r := wire.NewReader(strings.NewReader("{}\nabc"), 1<<20, 0, nil)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Body(4, make([]byte, 9)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", got, err)
	}
	for _, n := range []string{"-1", "1.5", "99999999999", `"1"`, "{}"} {
		if m, err := wire.ParseMessage([]byte(`{"stream_id":"x","seq":1,"type":"stdout","offset":0,"raw":` + n + `}`)); err == nil && m.Raw != 0 {
			t.Errorf("%s: %+v", n, m)
		}
	}
}

// FuzzRawPush: with any bytes from a daemon, the bytes that are read occur among them, in order.
func FuzzRawPush(f *testing.F) {
	f.Add([]byte("{\"stream_id\":\"x\",\"seq\":1,\"type\":\"stdout\",\"offset\":0,\"raw\":3}\na\nb{\"id\":\"1\",\"ok\":true}\n"))
	f.Add([]byte("{\"stream_id\":\"x\",\"raw\":8388608}\nshort"))
	f.Add([]byte("{\"stream_id\":\"x\",\"raw\":-1}\n\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := wire.NewReader(iotest.HalfReader(bytes.NewReader(text)), 1<<16, 0, nil)
		rest := text
		for {
			line, err := r.Next()
			var refused *wire.Refused
			if errors.As(err, &refused) {
				continue
			}
			if err != nil {
				return
			}
			_, after, found := bytes.Cut(rest, line)
			if !found {
				t.Fatalf("%q is not in %q", line, rest)
			}
			m, err := wire.ParseMessage(line)
			if err != nil {
				return
			}
			if rest = after; m.Raw == 0 {
				continue
			}
			if m.Raw < 0 || m.Raw > wire.MaxRaw || m.Event == nil {
				t.Fatalf("%+v", m)
			}
			body, err := r.Body(m.Raw, nil)
			if err != nil {
				return
			}
			n := bytes.IndexByte(rest, '\n')
			if n < 0 || !bytes.HasPrefix(rest[n+1:], body) {
				t.Fatalf("%q does not begin with %q", rest, body)
			}
			rest = rest[n+1+len(body):]
		}
	})
}
