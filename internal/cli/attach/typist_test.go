package attach

import (
	"bytes"
	"testing"
)

// TestTypistQueue: keys leave the queue in order and in pieces that fit into one call, and the
// queue has a limit.
func TestTypistQueue(t *testing.T) {
	y := newTypist(nil, "s")
	if data, last := y.next(); len(data) != 0 || last {
		t.Errorf("an empty queue has %q, last %v", data, last)
	}
	var want []byte
	for i := range 3 {
		keys := bytes.Repeat([]byte{byte('a' + i)}, typedAtOnce-1)
		want = append(want, keys...)
		if !y.add(keys) {
			t.Fatal("no room")
		}
	}
	if y.add(make([]byte, maxTyped)) {
		t.Error("the queue has no limit")
	}
	var got []byte
	for {
		data, _ := y.next()
		if len(data) == 0 {
			break
		}
		if len(data) > typedAtOnce {
			t.Errorf("a piece of %d bytes", len(data))
		}
		got = append(got, data...)
	}
	if !bytes.Equal(got, want) {
		t.Error("the keys are not what was typed")
	}
	if !y.add(make([]byte, maxTyped)) {
		t.Error("an empty queue has no room")
	}
}
