package cli

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// TestWriteDoesNotWait: more than the file takes is queued, and comes in order.
func TestWriteDoesNotWait(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o := &ttyOut{f: w}
	<-o.written() // nothing was
	var want []byte
	for i := range 1000 {
		p := bytes.Repeat([]byte{byte('a' + i%26)}, 1000)
		want = append(want, p...)
		if n, err := o.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if !o.busy() {
		t.Error("a pipe takes a million bytes")
	}
	if o.finish() {
		t.Error("all is written, and nobody has read")
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what arrives is something else (%v)", err)
	}
	if !o.finish() || o.busy() || o.failed() != nil {
		t.Errorf("busy %v, %v", o.busy(), o.failed())
	}
	_ = w.Close()
	_, _ = o.Write([]byte("x"))
	<-o.written()
	if _, err := o.Write([]byte("x")); err == nil || o.failed() == nil || o.busy() || o.finish() {
		t.Errorf("written to a closed file: %v, busy %v", o.failed(), o.busy())
	}
}
