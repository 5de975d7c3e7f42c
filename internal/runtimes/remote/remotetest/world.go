package remotetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes/remote"
)

// marker is in the environment of every process of a place.
const marker = "REMOTETEST_PLACE"

// World is the engine with its places, and the network to it. It outlives the daemons that use it.
// It is safe for concurrent use.
type World struct {
	t   testing.TB
	dir string

	mu        sync.Mutex
	places    map[string]*place     // guarded by mu; by id
	next      int                   // guarded by mu
	gone      bool                  // guarded by mu; the network is down
	delay     time.Duration         // guarded by mu; before every start of a program
	processes map[*program]struct{} // guarded by mu; those that are joined
	argv      []string              // guarded by mu; all argument lists
	cuts      int                   // guarded by mu
}

// place is one place.
type place struct {
	id, dir         string
	daemon, session string // its label; empty for one that TRL did not make
	ended           string // guarded by World.mu; why it ended; empty while it lives
}

// New makes a world without places.
func New(t testing.TB, dir string) *World {
	w := &World{t: t, dir: dir, places: map[string]*place{}, processes: map[*program]struct{}{}}
	t.Cleanup(func() {
		for _, p := range w.list() {
			w.kill(p)
		}
	})
	return w
}

// ErrNetwork is the error of everything that needs the network while Lose has taken it away.
var ErrNetwork = errors.New("remotetest: the network is cut")

// Cut breaks all connections. New ones can be made. It returns how many it broke.
func (w *World) Cut() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.processes)
	for p := range w.processes {
		p.cut()
	}
	w.cuts += n
	return n
}

// Lose takes the network down, with all connections, until restore is called.
func (w *World) Lose() (restore func()) {
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	w.Cut()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.gone = false
	}
}

// Delay makes the start of every program take that long.
func (w *World) Delay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// End ends a place, with everything in it, also in its memory. The place stays until it is removed.
func (w *World) End(id, cause string) {
	w.mu.Lock()
	p := w.places[id]
	p.ended = cause
	w.mu.Unlock()
	w.kill(p)
	if err := os.RemoveAll(filepath.Join(p.dir, "run")); err != nil {
		w.t.Error(err)
	}
}

// Stray makes a place with the labels of a daemon and a session.
func (w *World) Stray(daemon, session string) { w.add(daemon, session) }

// Made returns the ids of the places that TRL made.
func (w *World) Made() []string {
	var ids []string
	for _, p := range w.list() {
		if p.session != "" {
			ids = append(ids, p.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Listing returns the argument lists of all programs, which the engine shows to others.
func (w *World) Listing() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.argv, "\n")
}

// WantEmpty checks that no place that TRL made is left, and nothing in the others.
func (w *World) WantEmpty() {
	w.t.Helper()
	for _, p := range w.list() {
		if p.session != "" {
			w.t.Errorf("place %s of session %s is left", p.id, p.session)
		}
		for _, i := range process.Marked(marker, p.id, 0) {
			w.t.Errorf("process %d is left: %s", i.PID, process.CommandLine(i.PID))
		}
		if left, _ := filepath.Glob(filepath.Join(p.dir, "run", "*")); len(left) > 0 {
			w.t.Errorf("left in place %s: %v", p.id, left)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.processes {
		w.t.Errorf("program %v is still joined", p.cmd.Args)
	}
}

func (w *World) list() []*place {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*place
	for _, p := range w.places {
		all = append(all, p)
	}
	return all
}

func (w *World) add(daemon, session string) *place {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	p := &place{id: fmt.Sprintf("p%d", w.next), daemon: daemon, session: session}
	if session == "" {
		p.id = "machine"
		if old := w.places[p.id]; old != nil {
			return old
		}
	}
	p.dir = filepath.Join(w.dir, p.id)
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		w.t.Error(err)
	}
	w.places[p.id] = p
	return p
}

// kill kills everything in a place.
func (w *World) kill(p *place) {
	process.KillAll(process.Marked(marker, p.id, 0), syscall.SIGKILL, 0)
}

func (w *World) remove(p *place) error {
	w.kill(p)
	w.mu.Lock()
	delete(w.places, p.id)
	w.mu.Unlock()
	return os.RemoveAll(p.dir)
}

// reach takes as long as a way to the engine does. It fails while the network is down.
func (w *World) reach(ctx context.Context) error {
	w.mu.Lock()
	gone, delay := w.gone, w.delay
	w.mu.Unlock()
	if gone {
		return ErrNetwork
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// living returns the place with an id, or why there is none.
func (w *World) living(id string) (*place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.places[id]
	switch {
	case p == nil:
		return nil, &remote.EndedError{Cause: "place " + id + " was removed"}
	case p.ended != "":
		return nil, &remote.EndedError{Cause: p.ended}
	}
	return p, nil
}
