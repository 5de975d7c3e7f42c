package output

import "os"

// SkipSeq uses up n sequence numbers, as n records of the other stream would.
func (l *Log) SkipSeq(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq += n
	l.last = none
}

// File returns the store's file, nil if there is none.
func (s *Store) File() *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.f
}

// ReplaceFile makes the store use f as its file.
func (s *Store) ReplaceFile(f *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file.f = f
}

// Memory returns how many bytes the store has in use.
func (s *Store) Memory() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory
}

// PinAll pins all spans of the stream, as a reader that copies them does, until end is called.
func (l *Log) PinAll(st Stream) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.streams[st]
	spans := s.spans(nil, 0, s.total)
	pin(spans)
	return func() { l.unpin(spans) }
}
