package output

import (
	"slices"
	"sync"
)

// maxFree is the number of unused pages that a store keeps for reuse while output is being written,
// because pages are not always dropped in step with being filled.
const maxFree = 4

// StoreConfig configures a Store.
type StoreConfig struct {
	// MemoryBytes limits the memory of all logs together; 0 means no limit. Pages that are being
	// written or read, and small pages, may exceed it.
	MemoryBytes int64
	// Dir is the directory of the file that takes the pages beyond MemoryBytes. If it is empty,
	// or the file cannot be made or written, logs lose their middle instead.
	Dir string
	// Warn, if set, is called once with the reason why the file cannot be used. No lock is held.
	Warn func(error)
	// Grown, if set, is called when all logs together have grown by GrowBytes since the last
	// call. The writing goroutine calls it, so it must not block. No lock is held.
	Grown     func()
	GrowBytes int64
}

// A Store is the memory of all logs of one process, and the file behind it. The file has no name and
// exists only while it is not empty. All methods may be called from any goroutine.
type Store struct {
	config StoreConfig

	mu       sync.Mutex // guards the fields below, and the logs
	memory   int64      // bytes of all buffers in use
	filed    int64      // bytes in the file
	reported int64      // size of all logs at the last call of Grown, or less if they have shrunk since
	file     file
	free     []*page // unused pages with their buffers; at most maxFree
	warned   bool    // Warn has been called

	// root is the anchor of a ring of the pages that may leave memory, the next one first. It is
	// not a page itself.
	root page
}

// NewStore returns a Store without logs.
func NewStore(c StoreConfig) *Store {
	s := &Store{config: c}
	s.root.prev, s.root.next = &s.root, &s.root
	return s
}

// enlistLocked adds a page that is full, or was read from the file, to the end of the ring of pages
// that may leave memory. Small pages stay in memory.
func (s *Store) enlistLocked(p *page) {
	if p.next != nil || len(p.buf) < minReserve && p.slot == 0 {
		return
	}
	p.prev, p.next = s.root.prev, &s.root
	p.prev.next, p.next.prev = p, p
}

func (s *Store) unlistLocked(p *page) {
	if p.next != nil {
		p.prev.next, p.next.prev = p.next, p.prev
		p.prev, p.next = nil, nil
	}
}

// takeLocked returns an empty page with a buffer of the given size.
func (s *Store) takeLocked(size int) *page {
	last := len(s.free) - 1
	for i, p := range s.free {
		if len(p.buf) == size {
			s.free[i], s.free[last] = s.free[last], nil
			s.free = s.free[:last]
			return p
		}
	}
	return &page{buf: make([]byte, size)}
}

// giveLocked keeps an unused page for takeLocked.
func (s *Store) giveLocked(p *page) {
	if len(s.free) < maxFree {
		s.free = append(s.free, p)
	}
}

// keepSmallLocked drops the unused pages that only a large output needs.
func (s *Store) keepSmallLocked() {
	s.free = slices.DeleteFunc(s.free, func(p *page) bool { return len(p.buf) > minReserve })
}

// overLocked reports whether the memory limit is exceeded.
func (s *Store) overLocked() bool {
	return s.config.MemoryBytes > 0 && s.memory > s.config.MemoryBytes
}

// fullLocked reports whether the memory limit is exceeded and pages may leave memory.
func (s *Store) fullLocked() bool { return s.overLocked() && s.root.next != &s.root }

// Kept returns the size of all logs together, in bytes.
func (s *Store) Kept() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory + s.filed
}

// grownLocked reports whether the caller must call Grown, after unlocking.
func (s *Store) grownLocked() bool {
	if s.config.Grown == nil {
		return false
	}
	kept := s.memory + s.filed
	if kept >= s.reported+s.config.GrowBytes {
		s.reported = kept
		return true
	}
	s.reported = min(s.reported, kept)
	return false
}

// oldestLocked returns the next page to leave memory; nil if the limit is not exceeded or all pages
// are being read.
func (s *Store) oldestLocked() *page {
	if !s.overLocked() {
		return nil
	}
	for p := s.root.next; p != &s.root; p = p.next {
		if p.pins == 0 {
			return p
		}
	}
	return nil
}

// spill moves pages from memory to the file until the memory limit is met. The goroutine that used
// the memory calls it, without the lock.
func (s *Store) spill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := s.oldestLocked(); p != nil; p = s.oldestLocked() {
		if p.slot != 0 { // the page is in the file already
			s.unlistLocked(p)
			p.stream.grow(-len(p.buf))
			p.buf = nil
			continue
		}
		stream := p.stream // write may recycle p
		err := s.writeLocked(p)
		if err == nil {
			continue
		}
		// The page in the middle may be in the file. Dropping it makes a slot available for the
		// next one.
		if !stream.dropMiddle() {
			return
		}
		if !s.warned && s.config.Warn != nil && err != errNoDir {
			s.warned = true
			s.mu.Unlock()
			s.config.Warn(err)
			s.mu.Lock()
		}
	}
}

// writeLocked copies a page to the file, and releases its memory unless a reader uses it. It
// releases the lock while it writes.
func (s *Store) writeLocked(p *page) error {
	p.pins++
	slot, err := s.slotLocked()
	if err == nil {
		f, data, index := s.file.f, p.buf[:p.n], p.buf[len(p.buf)-p.index():]
		s.mu.Unlock()
		err = writeSlot(f, slot, data, index)
		s.mu.Lock()
	}
	p.pins--
	switch {
	case p.dropped || err != nil:
		s.file.free(slot)
		if p.dropped && p.pins == 0 {
			p.stream.free(p)
		}
		return err
	case p.pins > 0:
		p.filed(slot)
		s.unlistLocked(p)
		s.enlistLocked(p)
		return nil
	}
	p.filed(slot)
	s.unlistLocked(p)
	p.stream.grow(-len(p.buf))
	p.stream.recycle(&page{buf: p.buf})
	p.buf = nil
	return nil
}

// slotLocked takes a slot of the file. If there is no file, it releases the lock and makes one.
func (s *Store) slotLocked() (int64, error) {
	if s.config.Dir == "" {
		return 0, errNoDir
	}
	if s.file.f == nil {
		s.mu.Unlock()
		f, err := Unnamed(s.config.Dir)
		s.mu.Lock()
		if err != nil {
			return 0, err
		}
		if s.file.f == nil {
			s.file.f = f
		} else {
			f.Close() // another goroutine was faster
		}
	}
	return s.file.take(), nil
}

// loadLocked reads a pinned page back into memory. It releases the lock while it reads.
func (s *Store) loadLocked(p *page) error {
	if p.buf != nil {
		return nil
	}
	f, slot, buf := s.file.f, p.slot, make([]byte, p.used())
	s.mu.Unlock()
	err := readSlot(f, slot, 0, buf)
	s.mu.Lock()
	if err != nil || p.buf != nil {
		return err
	}
	p.buf = buf
	p.stream.grow(len(buf))
	if !p.dropped {
		s.enlistLocked(p)
	}
	return nil
}
