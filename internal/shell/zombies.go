package shell

import "time"

// Some shells reap a child that has ended only when they run the next command. In an idle
// session, the child would remain a zombie until then.

// Reap makes an idle shell reap its children that have ended.
func (s *Shell) Reap() {
	text := s.dialect.reap()
	if text == "" || s.dead() || len(s.shellKids.List(nil)) == 0 {
		return
	}
	_ = s.bookkeep(text+"\n", time.Now().Add(bookkeepTime)) // the next command meets the same error and reports it
}

// Children returns the children of an idle shell that does not reap by itself, each child
// only once. A Held of the list is complete when its child has ended; then call Reap.
func (s *Shell) Children() (list []*Held) {
	if s.dialect.reap() == "" || s.dead() {
		return nil
	}
	watched := map[int]bool{}
	for _, pid := range s.shellKids.List(nil) {
		watched[pid] = true
		if s.watched[pid] {
			continue
		}
		if fd, ok := openExit(pid); ok {
			list = append(list, &Held{streams: []*stream{{fd: fd, exit: true}}})
		}
	}
	s.watched = watched
	return list
}
