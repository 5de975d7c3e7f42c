package terminal

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

const (
	// rebuildFrom is how much of the output a new screen is made from.
	rebuildFrom = 256 << 10
	// rebuildPiece is how much of it is shown at a time, and brokenPiece what is given up
	// at a time where there is something that the screen cannot bear.
	rebuildPiece = 4 << 10
	brokenPiece  = 64
)

// screen is a vt.Terminal that a bug in it cannot take away: when it panics, another one
// takes its place, made from the end of the output. It is guarded by Terminal.mu.
type screen struct {
	vt   *vt.Terminal
	new  func(cols, rows int) *vt.Terminal
	show func(*vt.Terminal, []byte) // (*vt.Terminal).Write, but for tests
	log  *output.Log
	warn func(error)

	base    uint64    // what the versions of earlier ones have come to
	rebuilt int       // how often
	version uint64    // when it was looked at last
	changed time.Time // when that had risen
}

// do calls f, which must be able to be called again. offset is how much of the log is on
// the screen.
func (s *screen) do(offset int64, f func(*vt.Terminal)) {
	if err := s.try(f); err != nil {
		s.rebuild(offset, err)
		if s.try(f) != nil {
			s.replace()
			s.try(f)
		}
	}
}

// write shows p, which is in the log behind offset. Of what breaks the screen a piece is
// left out.
func (s *screen) write(offset int64, p []byte) {
	err := s.try(func(v *vt.Terminal) { s.show(v, p) })
	if err == nil {
		return
	}
	s.rebuild(offset, err)
	s.pieces(p)
}

// pieces shows p piece by piece, on a new screen after each that breaks it.
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
			from = offset // the rest is not published yet
		}
		if s.try(func(v *vt.Terminal) { s.show(v, buf[:n]) }) != nil {
			s.replace()
			s.pieces(buf[:n])
		}
		from += int64(n)
	}
	s.try(func(v *vt.Terminal) { v.Replies() }) // they were given when the questions came
}

// at is the version of the screen. It rises also over a rebuild.
func (s *screen) at() uint64 { return s.base + s.vt.Version() }

// since is what version means to the present vt.Terminal.
func (s *screen) since(version uint64) uint64 {
	if version < s.base {
		return 0
	}
	return version - s.base
}

// note takes down when the screen changed.
func (s *screen) note(now time.Time) {
	if v := s.at(); v != s.version {
		s.version, s.changed = v, now
	}
}
