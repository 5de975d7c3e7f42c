package output

import (
	"errors"
	"os"
)

// errNoDir says that there is to be no file.
var errNoDir = errors.New("no directory for the file")

// A file takes pages, each in a slot as large as a page can be. The lock of the
// store guards it; reading and writing need no lock.
type file struct {
	f      *os.File // nil while nothing is in it
	slots  int64    // in use or not; they count from 1
	unused []int64
	used   int
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

// free gives a slot back. With the last one the file goes.
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

// writeSlot writes data and behind it index into a slot.
func writeSlot(f *os.File, slot int64, data, index []byte) error {
	at := (slot - 1) * maxPage
	_, err := f.WriteAt(data, at)
	if err == nil && len(index) > 0 {
		_, err = f.WriteAt(index, at+int64(len(data)))
	}
	return err
}

// reads bounds how many readers wait for the disk at once: each takes a thread, and a
// runner has a few.
var reads = make(chan struct{}, 2)

// readSlot reads p from byte from of a slot on.
func readSlot(f *os.File, slot int64, from int, p []byte) error {
	reads <- struct{}{}
	defer func() { <-reads }()
	_, err := f.ReadAt(p, (slot-1)*maxPage+int64(from))
	return err
}

// unnamed makes a file in dir that has no name.
func unnamed(dir string) (*os.File, error) {
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
