package session

import (
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
)

// viewers are the viewers of a terminal, and which of them owns its size. The terminal has
// the size of its owner; the sizes of the others are remembered.
//
// It only decides: the caller holds the session's lock, and resizes the terminal if viewers
// returns a new size.
type viewers struct {
	list  []*Viewer // in the order in which they came
	owner *Viewer   // nil if no viewer owns the size
	want  api.TerminalSize
	// changes counts the changes of list, of owner and of the sizes of viewers.
	changes int64
	// left is when the last viewer left; zero if there never was one.
	left time.Time
}

// ownerID returns the viewer that owns the size, or "".
func (vs *viewers) ownerID() string {
	if vs.owner == nil {
		return ""
	}
	return vs.owner.id
}

func (vs *viewers) find(id string) *Viewer {
	for _, v := range vs.list {
		if v.id == id {
			return v
		}
	}
	return nil
}

// add registers a viewer. The first one that has reported its size and may type owns the size;
// a later one only if it takes it. add reports whether the terminal must be resized to want.
func (vs *viewers) add(v *Viewer, take bool) (resize bool) {
	vs.changes++
	vs.list = append(vs.list, v)
	if !v.counts() || vs.owner != nil && !take {
		return false
	}
	return vs.own(v)
}

// remove forgets a viewer. If it owned the size, the one that attached first becomes the owner.
func (vs *viewers) remove(v *Viewer) (resize bool) {
	vs.changes++
	vs.list = slices.DeleteFunc(vs.list, func(x *Viewer) bool { return x == v })
	if vs.owner != v {
		return false
	}
	vs.owner = nil
	for _, next := range vs.list {
		if next.counts() {
			return vs.own(next)
		}
	}
	return false
}

// measured records the size of a viewer. The terminal gets this size if the viewer owns the
// size, takes it, or reports its size for the first time while there is no owner. A read-only
// viewer never owns the size.
func (vs *viewers) measured(v *Viewer, size api.TerminalSize, take bool) (resize bool) {
	vs.changes++
	first := v.size == nil
	v.size = &size
	if v.counts() && (vs.owner == v || take || vs.owner == nil && first) {
		return vs.own(v)
	}
	return false
}

// set makes a size that belongs to no viewer the wanted one. It returns false if a viewer owns
// the size; with force, that viewer loses it instead.
func (vs *viewers) set(size api.TerminalSize, force bool) (resize bool) {
	if vs.owner != nil && !force {
		return false
	}
	vs.changes++
	vs.owner, vs.want = nil, size
	return true
}

func (vs *viewers) own(v *Viewer) bool {
	vs.owner, vs.want = v, *v.size
	return true
}
