package shell

import "time"

// Some shells take notice of a child that has ended only when they run the next command.
// Until then it is a zombie, which a session that stays idle would keep for ever.

// Reap makes an idle shell take notice of children that have ended.
func (s *Shell) Reap() {
	text := s.dialect.reap()
	if text == "" || s.dead() || len(s.shellKids.List(nil)) == 0 {
		return
	}
	_ = s.bookkeep(text+"\n", time.Now().Add(bookkeepTime)) // a later command finds what is wrong
}

// Children are the children of an idle shell that it would not notice the end of. Each is
// at its end when the child is. A child is returned once.
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
