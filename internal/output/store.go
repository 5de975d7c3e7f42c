package output

import (
	"slices"
	"sync"
)

// maxFree is how many pages a store keeps for the next use while output is being
// written: dropping is not always in step with filling.
const maxFree = 4

// StoreConfig says how much a Store holds and where.
type StoreConfig struct {
	// MemoryBytes bounds the memory of all logs together; 0 is no bound. Pages that
	// are being written or read, and small ones, may take some more.
	MemoryBytes int64
	// Dir is where the file is made that takes what memory does not. Without it, and
	// while the file cannot be made or written, logs lose their middle instead.
	Dir string
	// Warn, if set, is told once why the file cannot be used. No lock is held.
	Warn func(error)
	// Grown, if set, is called by whoever writes when what is kept has grown by
	// GrowBytes since the last time. It must not wait. No lock is held.
	Grown     func()
	GrowBytes int64
}

// A Store is the memory of all logs of one process, and the file behind it. The
// file has no name and exists only while there is something in it. All methods may
// be called from any goroutine.
type Store struct {
	config StoreConfig

	mu     sync.Mutex // guards all below, and the logs
	memory int64      // bytes of all buffers in use
	filed  int64      // bytes in the file
	told   int64      // what was kept when Grown was called last, or less
	file   file
	free   []*page // unused, with their buffers; at most maxFree
	warned bool

	// root is the beginning of a ring of the pages that may leave memory. The next
	// one to go follows it; the root itself is no page.
	root page
}

// NewStore returns a Store without logs.
func NewStore(c StoreConfig) *Store {
	s := &Store{config: c}
	s.root.prev, s.root.next = &s.root, &s.root
	return s
}

// enlist makes a page that is full, or was read from the file, the last to leave
// memory. What is small stays.
func (s *Store) enlist(p *page) {
	if p.next != nil || len(p.buf) < minReserve && p.slot == 0 {
		return
	}
	p.prev, p.next = s.root.prev, &s.root
	p.prev.next, p.next.prev = p, p
}

func (s *Store) unlist(p *page) {
	if p.next != nil {
		p.prev.next, p.next.prev = p.next, p.prev
		p.prev, p.next = nil, nil
	}
}

// take returns an empty page with a buffer of that size, give brings one back.
func (s *Store) take(size int) *page {
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

func (s *Store) give(p *page) {
	if len(s.free) < maxFree {
		s.free = append(s.free, p)
	}
}

// keepSmall drops the unused pages that only much output needs.
func (s *Store) keepSmall() {
	s.free = slices.DeleteFunc(s.free, func(p *page) bool { return len(p.buf) > minReserve })
}

// over reports whether more memory is in use than should be.
func (s *Store) over() bool {
	return s.config.MemoryBytes > 0 && s.memory > s.config.MemoryBytes
}

// full reports whether spill has something to do.
func (s *Store) full() bool { return s.over() && s.root.next != &s.root }

// Kept returns how many bytes all logs together hold.
func (s *Store) Kept() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory + s.filed
}

// grown reports whether Grown is to be called.
func (s *Store) grown() bool {
	if s.config.Grown == nil {
		return false
	}
	kept := s.memory + s.filed
	if kept >= s.told+s.config.GrowBytes {
		s.told = kept
		return true
	}
	s.told = min(s.told, kept)
	return false
}

// oldest returns the page that leaves memory next, if one must and can.
func (s *Store) oldest() *page {
	if !s.over() {
		return nil
	}
	for p := s.root.next; p != &s.root; p = p.next {
		if p.pins == 0 {
			return p
		}
	}
	return nil
}

// spill moves pages from memory to the file until no more memory is in use than
// should be. Whoever used the memory calls it, without the lock.
func (s *Store) spill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := s.oldest(); p != nil; p = s.oldest() {
		if p.slot != 0 { // it was read from there
			s.unlist(p)
			p.stream.grow(-len(p.buf))
			p.buf = nil
			continue
		}
		stream := p.stream // p may be another page after this
		err := s.write(p)
		if err == nil {
			continue
		}
		// What is dropped may be in the file; its place there is then the next to be used.
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

// write copies a page to the file, and takes it from memory unless somebody reads
// it there. The lock is held, but not while the file is being written.
func (s *Store) write(p *page) error {
	p.pins++
	slot, err := s.slot()
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
		s.unlist(p)
		s.enlist(p)
		return nil
	}
	p.filed(slot)
	s.unlist(p)
	p.stream.grow(-len(p.buf))
	p.stream.recycle(&page{buf: p.buf})
	p.buf = nil
	return nil
}

// slot takes a place in the file, which is made if there is none. The lock is held,
// but not meanwhile.
func (s *Store) slot() (int64, error) {
	if s.config.Dir == "" {
		return 0, errNoDir
	}
	if s.file.f == nil {
		s.mu.Unlock()
		f, err := unnamed(s.config.Dir)
		s.mu.Lock()
		if err != nil {
			return 0, err
		}
		if s.file.f == nil {
			s.file.f = f
		} else {
			f.Close() // somebody else was faster
		}
	}
	return s.file.take(), nil
}

// load brings a pinned page back into memory. The lock is held, but not while the
// file is being read.
func (s *Store) load(p *page) error {
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
		s.enlist(p)
	}
	return nil
}
