package early

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// TestPrintNeverBlocks: print writes what a pipe takes at once, and counts it.
func TestPrintNeverBlocks(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	c := &conversation{}
	n := c.print(int(w.Fd()), data) // Fd makes the pipe blocking
	if n == 0 || n == len(data) {
		t.Errorf("%d of %d bytes written", n, len(data))
	}
	if m := c.print(int(w.Fd()), data[n:]); m != 0 {
		t.Errorf("%d more bytes written", m)
	}
	w.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data[:n]) {
		t.Errorf("%d of %d bytes arrived, %v", len(got), n, err)
	}
	r, w, err = os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	if n := c.print(int(w.Fd()), data); n != 0 {
		t.Errorf("%d bytes written to a pipe that has no reader", n)
	}
}
