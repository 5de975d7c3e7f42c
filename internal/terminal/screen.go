package terminal

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

const (
	// rebuildFrom is how many bytes of output a new screen is made from.
	rebuildFrom = 256 << 10
	// rebuildPiece is how many of them are written at a time. In a piece that breaks the screen,
	// brokenPiece is how many bytes are left out at a time.
	rebuildPiece = 4 << 10
	brokenPiece  = 64
)

// screen is a vt.Terminal that survives its own bugs: when it panics, a new one takes its place,
// made from the end of the output. It is guarded by Terminal.mu.
type screen struct {
	vt   *vt.Terminal
	new  func(cols, rows int) *vt.Terminal
	show func(*vt.Terminal, []byte) // (*vt.Terminal).Write, except in tests
	log  *output.Log
	warn func(error)

	base    uint64    // the sum of the versions of earlier screens
	rebuilt int       // how often the screen was made anew
	version uint64    // the version at the last note
	changed time.Time // when note last found a new version
}

// do calls f, possibly several times. offset is how many bytes of the log are on the screen.
func (s *screen) do(offset int64, f func(*vt.Terminal)) {
	if err := s.try(f); err != nil {
		s.rebuild(offset, err)
		if s.try(f) != nil {
			s.replace()
			s.try(f)
		}
	}
}

// write shows p, which is in the log at offset. It leaves out a piece that breaks the screen.
func (s *screen) write(offset int64, p []byte) {
	err := s.try(func(v *vt.Terminal) { s.show(v, p) })
	if err == nil {
		return
	}
	s.rebuild(offset, err)
	s.pieces(p)
}

// pieces shows p piece by piece, with a new screen after each piece that breaks it.
func (s *screen) pieces(p []byte) {
	for len(p) > 0 {
		piece := p[:min(len(p), brokenPiece)]
		p = p[len(piece):]
		if s.try(func(v *vt.Terminal) { s.show(v, piece) }) != nil {
			s.replace()
		}
	}
}

// try calls f and returns why it panicked.
func (s *screen) try(f func(*vt.Terminal)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the screen broke: %v\n%s", r, debug.Stack())
		}
	}()
	f(s.vt)
	return nil
}

// replace puts an empty screen in the place of a broken one.
func (s *screen) replace() {
	cols, rows := s.vt.Size() // two numbers: no reason to panic
	s.base += s.vt.Version() + 1
	s.vt = s.new(cols, rows)
}

// rebuild makes the screen anew from the output before offset.
func (s *screen) rebuild(offset int64, why error) {
	s.rebuilt++
	s.warn(why)
	s.replace()
	buf := make([]byte, rebuildPiece)
	for from := max(0, offset-rebuildFrom); from < offset; {
		n, gapTo, err := s.log.ReadAt(output.Stdout, from, buf[:min(rebuildPiece, offset-from)])
		switch {
		case gapTo > from:
			from = gapTo
			continue
		case err != nil || n == 0:
			from = offset // the log does not have the rest yet
		}
		if s.try(func(v *vt.Terminal) { s.show(v, buf[:n]) }) != nil {
			s.replace()
			s.pieces(buf[:n])
		}
		from += int64(n)
	}
	s.try(func(v *vt.Terminal) { v.Replies() }) // drop them: the queries were answered before
}

// at returns the version of the screen. It also rises with a rebuild.
func (s *screen) at() uint64 { return s.base + s.vt.Version() }

// since translates a version into one of the present vt.Terminal.
func (s *screen) since(version uint64) uint64 {
	if version < s.base {
		return 0
	}
	return version - s.base
}

// note remembers when the screen changed.
func (s *screen) note(now time.Time) {
	if v := s.at(); v != s.version {
		s.version, s.changed = v, now
	}
}
