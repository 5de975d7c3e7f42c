// Package runtimetest checks that a runtime keeps the promises of session.Runtime and
// session.Runner. Every runtime passes it.
package runtimetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

// Place is a place where a runtime puts runners. It outlives the daemons that use it.
type Place struct {
	// Open makes the runtime of a daemon. leave closes it, as the daemon does when it ends; the
	// runners live on. There is one daemon at a time.
	Open func(t *testing.T) (rt session.Runtime, leave func())
	// WantEmpty fails the test if anything of any session is left in the place.
	WantEmpty func(t *testing.T)
	// Target is where sessions are created.
	Target session.Target

	// Cycles is how many sessions are made one after another to see that nothing is left, 100 if it
	// is 0, and the maximum of sessions that are made at once.
	Cycles int

	// The rest is nil where it does not apply, and the checks that need it are left out.

	// Cut breaks all connections to the place. New ones can be made.
	Cut func()
	// Lose makes the place unreachable until restore is called.
	Lose func() (restore func())
	// End ends the container, pod or machine of a runner, and returns a text that the cause of the
	// session's end must contain.
	End func(r session.Runner) string
	// Stray makes something that carries the label of the daemon and belongs to no session. The
	// next daemon removes it.
	Stray func(t *testing.T)
	// Listing is everything that the engine and its machine show to others: descriptions of
	// containers and pods, argument lists.
	Listing func() string
}

// limit bounds every step that should end by itself.
const limit = time.Minute

// Run runs the checks, each in a new place.
func Run(t *testing.T, newPlace func(t *testing.T) Place) {
	for _, c := range []struct {
		name  string
		needs func(Place) bool
		check func(d *daemon)
	}{
		{"a session from its start to its end", always, startToEnd},
		{"a start whose caller stops waiting", always, givenUp},
		{"a connection counts after its hello", always, helloCounts},
		{"a broken connection is made again", always, dialAgain},
		{"the next daemon finds the runner", always, nextDaemon},
		{"the next daemon removes a dead runner", always, deadRunner},
		{"many at once", always, manyAtOnce},
		{"one beside another", always, besideAnother},
		{"a removal that cannot be carried out is remembered", func(p Place) bool { return p.Lose != nil }, removedLater},
		{"a runner ends with its place", func(p Place) bool { return p.End != nil }, placeEnds},
		{"strays are removed", func(p Place) bool { return p.Stray != nil }, straysRemoved},
	} {
		t.Run(c.name, func(t *testing.T) {
			place := newPlace(t)
			if !c.needs(place) {
				t.Skip("does not apply to this place")
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			d := &daemon{T: t, ctx: ctx, place: place, ids: rand.Uint32()}
			d.open()
			defer d.close() // also after a failure
			c.check(d)
		})
	}
}

// daemon is the part of a daemon that the checks need: a runtime, which can be replaced.
type daemon struct {
	*testing.T
	ctx   context.Context
	place Place
	rt    session.Runtime
	leave func()
	alive map[session.Runner]bool // started or found, and not ended
	ids   uint32                  // the beginning of the ids of its sessions
}

func (d *daemon) open() {
	d.Helper()
	d.rt, d.leave = d.place.Open(d.T)
	d.alive = map[session.Runner]bool{}
}

// close ends the runners that a check has not ended because it failed, and the daemon.
func (d *daemon) close() {
	d.Helper()
	for r := range d.alive {
		r.Kill()
		<-r.Done()
		r.Remove(false)
	}
	d.prune()
	d.leave()
	d.place.WantEmpty(d.T)
}

// prune finishes the removals that a runtime does in the background.
func (d *daemon) prune() {
	d.Helper()
	p, ok := d.rt.(interface {
		Prune(context.Context) (removed, pending []string, err error)
	})
	if !ok {
		return
	}
	if _, pending, err := p.Prune(d.ctx); err != nil || len(pending) > 0 {
		d.Errorf("prune leaves %v, %v", pending, err)
	}
}

// replace is another daemon after this one.
func (d *daemon) replace() {
	d.Helper()
	d.leave()
	d.open()
}

// spec describes session n of the check. Every check has its own ids, as every session has: a pod
// that was deleted a moment ago may still run, and a cluster finds pods by their names.
func (d *daemon) spec(n int) session.Spec {
	id, now := fmt.Sprintf("s-%08x%02x", d.ids, n), time.Now().UTC().Truncate(time.Millisecond)
	p := api.SessionCreateParams{Name: fmt.Sprintf("name-%d", n), Kind: api.KindShell, Tags: []string{"one", "two"}}
	return session.Spec{About: session.About{SessionID: id, Name: p.Name, Kind: p.Kind, Tags: p.Tags, CreatedAt: now}, Target: d.place.Target, Params: p}
}

func (d *daemon) start(s session.Spec) session.Runner {
	d.Helper()
	r, err := d.rt.Start(d.ctx, s)
	if err != nil {
		d.Fatal(err)
	}
	d.alive[r] = true
	return r
}

// recovered returns the runners that the runtime finds.
func (d *daemon) recovered(want int) []session.Runner {
	d.Helper()
	list, err := d.rt.Recover(d.ctx)
	if err != nil {
		d.Fatal(err)
	}
	if len(list) != want {
		d.Fatalf("%d runners were found, want %d", len(list), want)
	}
	for _, r := range list {
		d.alive[r] = true
	}
	return list
}

// connection is one to a runner.
type connection struct {
	*link.Conn
	raw   io.Closer
	ended sync.WaitGroup
}

func (d *daemon) dial(r session.Runner) *connection {
	d.Helper()
	rwc, err := r.Dial(d.ctx)
	if err != nil {
		d.Fatal(err)
	}
	c := &connection{Conn: link.NewConn(rwc), raw: rwc}
	c.ended.Go(func() { _ = c.Serve(ignore{}) })
	d.Cleanup(c.close)
	return c
}

// close closes the connection and waits for its end.
func (c *connection) close() {
	_ = c.Close()
	_ = c.raw.Close()
	c.ended.Wait()
}

// hello introduces a daemon and checks that the runner is that of the session.
func (d *daemon) hello(c *connection, r session.Runner) error {
	d.Helper()
	var hello link.HelloResult
	_, err := c.Call(d.ctx, link.Hello.With(&link.HelloParams{Protocol: link.Protocol, Key: r.Key()}, nil, &hello))
	if err == nil && (hello.SessionID != r.About().SessionID || hello.Protocol != link.Protocol || hello.PID <= 0) {
		d.Errorf("hello: %+v, want that of %s", hello, r.About().SessionID)
	}
	return err
}

func (d *daemon) mustHello(c *connection, r session.Runner) {
	d.Helper()
	if err := d.hello(c, r); err != nil {
		d.Fatal(err)
	}
}

// create says hello and creates the session. A runner without a session ends when its daemon goes.
func (d *daemon) create(c *connection, s session.Spec, r session.Runner) {
	d.Helper()
	d.mustHello(c, r)
	p := link.CreateParams{
		SessionID: s.SessionID, Runtime: d.rt.Name(), Params: s.Params, BaseEnv: r.Place().Env, CreatedAt: s.CreatedAt,
		Limits: link.Limits{
			KillGraceS: 1, MaxQueued: 1, OutputBytes: 1 << 20, SessionOutput: 1 << 20, ExecsKept: 1, ShellStartTimeout: 30,
			SpillDir: r.Place().SpillDir,
		},
	}
	p.Params.Shell = "/bin/sh"
	var details link.SessionDetails
	if _, err := c.Call(d.ctx, link.Create.With(&p, nil, &details)); err != nil {
		d.Fatal(err)
	}
}

// end kills a runner and removes it.
func (d *daemon) end(r session.Runner) session.Remains {
	d.Helper()
	r.Kill()
	d.await(r.Done(), "the end of the runner")
	delete(d.alive, r)
	return r.Remove(false)
}

func (d *daemon) await(done <-chan struct{}, what string) {
	d.Helper()
	select {
	case <-done:
	case <-d.ctx.Done():
		d.Fatalf("waited too long for %s", what)
	}
}

// ignore takes the events of a runner, which makes no calls.
type ignore struct{}

func (ignore) Handle(context.Context, *link.Incoming) error {
	return errors.New("a runner does not call")
}
func (ignore) Event(string, json.RawMessage, []byte) {}

func startToEnd(d *daemon) {
	if d.rt.Name() == "" {
		d.Error("the runtime has no name")
	}
	s := d.spec(1)
	r := d.start(s)
	if got := r.About(); !sameAbout(got, s.About) {
		d.Errorf("about %+v, want %+v", got, s.About)
	}
	if env := r.Place().Env; env != nil && env["PATH"] == "" {
		d.Errorf("the place has no PATH: %v", env)
	}
	d.mustHello(d.dial(r), r)
	select {
	case <-r.Done():
		d.Error("the runner has ended by itself")
	default:
	}
	if remains := d.end(r); remains.Cause == "" || len(remains.Killed) != 0 {
		d.Errorf("remains: %+v, want a cause and no processes", remains)
	}
	if _, err := r.Dial(d.ctx); err == nil {
		d.Error("a runner that has ended accepts a connection")
	}
	d.recovered(0)
}

func givenUp(d *daemon) {
	ctx, cancel := context.WithCancel(d.ctx)
	cancel()
	if r, err := d.rt.Start(ctx, d.spec(1)); err == nil {
		d.end(r)
		d.Error("a start succeeded although its caller had stopped waiting")
	}
	d.recovered(0)
}

func helloCounts(d *daemon) {
	r := d.start(d.spec(1))
	first := d.dial(r)
	d.mustHello(first, r)
	silent := d.dial(r)
	if err := d.hello(first, r); err != nil {
		d.Errorf("a connection that says nothing has displaced the daemon: %s", err)
	}
	d.mustHello(silent, r)
	d.await(first.Done(), "the end of the older connection")
	d.end(r)
}

func dialAgain(d *daemon) {
	s := d.spec(1)
	r := d.start(s)
	d.create(d.dial(r), s, r)
	for range 5 {
		c := d.dial(r)
		d.mustHello(c, r)
		c.close()
	}
	d.end(r)
}

func nextDaemon(d *daemon) {
	s := d.spec(1)
	r := d.start(s)
	key := r.Key()
	c := d.dial(r)
	d.create(c, s, r)
	s.Name, s.Tags = "renamed", []string{"three"}
	if err := r.Describe(s.Name, s.Tags); err != nil {
		d.Error(err)
	}
	c.close()
	d.replace()
	r = d.recovered(1)[0]
	if got := r.About(); !sameAbout(got, s.About) {
		d.Errorf("about %+v, want %+v", got, s.About)
	}
	if r.Key() != key {
		d.Error("the key is another one")
	}
	c = d.dial(r)
	d.mustHello(c, r)
	var details link.SessionDetails
	if _, err := c.Call(d.ctx, link.Info.With(&struct{}{}, nil, &details)); err != nil || details.Runtime != d.rt.Name() {
		d.Errorf("info: runtime %q, %v", details.Runtime, err)
	}
	d.end(r)
	d.recovered(0)
}

func deadRunner(d *daemon) {
	r := d.start(d.spec(1))
	r.Kill()
	d.await(r.Done(), "the end of the runner")
	d.replace()
	d.recovered(0)
}

func manyAtOnce(d *daemon) {
	runners := make([]session.Runner, min(16, cmp.Or(d.place.Cycles, 16)))
	var starts sync.WaitGroup
	for i := range runners {
		starts.Go(func() {
			r, err := d.rt.Start(d.ctx, d.spec(i+1))
			if err != nil {
				d.Error(err)
				return
			}
			runners[i] = r
		})
	}
	starts.Wait()
	for i, r := range runners {
		if r == nil {
			continue
		}
		if got := r.About().SessionID; got != d.spec(i+1).SessionID {
			d.Errorf("runner %d is that of %s", i+1, got)
		}
		d.mustHello(d.dial(r), r)
	}
	var ends sync.WaitGroup
	for _, r := range runners {
		if r != nil {
			ends.Go(func() { r.Kill(); <-r.Done(); r.Remove(false) })
		}
	}
	ends.Wait()
	d.recovered(0)
}

func besideAnother(d *daemon) {
	first := d.start(d.spec(1))
	s := d.spec(2)
	s.Beside = first
	second := d.start(s)
	if a, b := first.Place().Info, second.Place().Info; a != b {
		d.Errorf("places %+v and %+v", a, b)
	}
	d.create(d.dial(second), s, second)
	d.end(first) // its place stays, because the other one is there
	d.mustHello(d.dial(second), second)
	d.replace()
	second = d.recovered(1)[0]
	d.mustHello(d.dial(second), second)
	d.end(second)
	d.place.WantEmpty(d.T)
}

func removedLater(d *daemon) {
	s := d.spec(1)
	r := d.start(s)
	d.create(d.dial(r), s, r)
	restore := d.place.Lose()
	r.Kill()
	delete(d.alive, r)
	began := time.Now()
	if remains := r.Remove(false); remains.Cause == "" {
		d.Errorf("remains: %+v", remains)
	}
	if took := time.Since(began); took > 25*time.Second {
		d.Errorf("the removal took %s", took)
	}
	d.replace()
	d.recovered(0)
	if _, err := d.rt.Start(d.ctx, d.spec(2)); err == nil {
		d.Error("a session was started in a place that cannot be reached")
	}
	restore()
	d.prune()
	d.place.WantEmpty(d.T)
}

func placeEnds(d *daemon) {
	s := d.spec(1)
	r := d.start(s)
	d.create(d.dial(r), s, r)
	cause := d.place.End(r)
	for !happened(r.Done()) && d.ctx.Err() == nil {
		_, _ = r.Dial(d.ctx)
	}
	delete(d.alive, r)
	if remains := r.Remove(false); !strings.Contains(remains.Cause, cause) {
		d.Errorf("cause %q, want %q", remains.Cause, cause)
	}
	d.recovered(0)
}

func straysRemoved(d *daemon) {
	s := d.spec(1)
	r := d.start(s)
	c := d.dial(r)
	d.create(c, s, r)
	d.place.Stray(d.T)
	d.replace()
	r = d.recovered(1)[0]
	d.prune()
	d.mustHello(d.dial(r), r) // it was spared
	d.end(r)
	d.place.WantEmpty(d.T)
}

func happened(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func sameAbout(a, b session.About) bool {
	return a.SessionID == b.SessionID && a.Name == b.Name && a.Kind == b.Kind && slices.Equal(a.Tags, b.Tags) && a.CreatedAt.Equal(b.CreatedAt)
}
