package output

import (
	"errors"
	"os"
)

// errNoDir means that the Store is configured without a file.
var errNoDir = errors.New("no directory for the file")

// A file stores pages, each in a slot of the size of the largest page. The lock of the store guards
// it, except for reading and writing slots.
type file struct {
	f      *os.File // nil while the file is empty
	slots  int64    // number of slots, used and unused; slots are numbered from 1
	unused []int64
	used   int // number of used slots
}

// take returns a slot that is not in use.
func (f *file) take() int64 {
	f.used++
	if last := len(f.unused) - 1; last >= 0 {
		slot := f.unused[last]
		f.unused = f.unused[:last]
		return slot
	}
	f.slots++
	return f.slots
}

// free makes a slot unused. It removes the file when no slot is used.
func (f *file) free(slot int64) {
	if slot == 0 {
		return
	}
	f.unused = append(f.unused, slot)
	if f.used--; f.used == 0 {
		f.f.Close()
		*f = file{}
	}
}

// writeSlot writes data, followed by index, into a slot.
func writeSlot(f *os.File, slot int64, data, index []byte) error {
	at := (slot - 1) * maxPage
	_, err := f.WriteAt(data, at)
	if err == nil && len(index) > 0 {
		_, err = f.WriteAt(index, at+int64(len(data)))
	}
	return err
}

// reads limits how many readers wait for the disk at once: each blocks a thread, and a runner has
// only a few.
var reads = make(chan struct{}, 2)

// readSlot fills p from a slot, beginning at byte from.
func readSlot(f *os.File, slot int64, from int, p []byte) error {
	reads <- struct{}{}
	defer func() { <-reads }()
	_, err := f.ReadAt(p, (slot-1)*maxPage+int64(from))
	return err
}

// Unnamed makes a file in dir that has no name.
func Unnamed(dir string) (*os.File, error) {
	if f, err := nameless(dir); err == nil {
		return f, nil
	}
	f, err := os.CreateTemp(dir, ".trl-output-*") // with mode 0600
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
