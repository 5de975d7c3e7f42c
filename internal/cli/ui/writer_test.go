package ui

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// TestWriteDoesNotWait: Write queues more than the file accepts, and the output stays in order.
func TestWriteDoesNotWait(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o := NewTerminalWriter(w)
	<-o.Written() // nothing was written yet
	var want []byte
	for i := range 1000 {
		p := bytes.Repeat([]byte{byte('a' + i%26)}, 1000)
		want = append(want, p...)
		if n, err := o.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if !o.Busy() {
		t.Error("a pipe accepted a million bytes")
	}
	if o.Finish() {
		t.Error("Finish reports that everything is written, but nothing was read")
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the output is not what was written (%v)", err)
	}
	if !o.Finish() || o.Busy() || o.Failed() != nil {
		t.Errorf("busy %v, %v", o.Busy(), o.Failed())
	}
	_ = w.Close()
	_, _ = o.Write([]byte("x"))
	<-o.Written()
	if _, err := o.Write([]byte("x")); err == nil || o.Failed() == nil || o.Busy() || o.Finish() {
		t.Errorf("written to a closed file: %v, busy %v", o.Failed(), o.Busy())
	}
}
