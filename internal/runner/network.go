package runner

import (
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/egress"
	"github.com/trl-dev/trl/internal/link"
)

// The bounds of the events of the network, so that a program that tries many destinations cannot
// push all other events out of the journal.
const (
	decisionWindow  = time.Second // equal decisions within this window become one event
	maxWindow       = time.Minute // the window grows up to this while a program tries one destination after another
	decisionsAtOnce = 10          // events of different decisions in a window; further decisions are counted together
	decisionsKept   = 100         // events that are kept for the next connection
)

// doorsKept is how many listeners stay open for processes that are left running in a network after the
// process that the runner started there has ended. Each further listener closes the oldest.
const doorsKept = 16

// network is the proxy of a session whose network is allow, with its decisions. Its listeners are
// in the networks of the session's processes, one for each process that the runner started.
type network struct {
	rules egress.Rules
	proxy *egress.Proxy

	mu     sync.Mutex
	counts api.NetworkCounts         // guarded by mu
	window map[link.NetworkEvent]int // guarded by mu; decisions since the window began, and how many of each are not reported yet
	length time.Duration             // guarded by mu; how long the window lasts
	totals api.NetworkCounts         // guarded by mu; decisions for which there were events
	recent []link.NetworkEvent       // guarded by mu; the last events, oldest first
	conn   *link.Conn                // guarded by mu; the last connection that got events
	unsent int                       // guarded by mu; how many of the last events conn has not got
	doors  []*os.File                // guarded by mu; listeners of networks whose first process has ended, oldest first
}

// newNetwork makes the proxy of a session.
func (r *Runner) newNetwork(allow []string) (*network, error) {
	rules, err := egress.ParseRules(allow)
	if err != nil {
		return nil, api.InvalidParam("isolation.allow", "%s", err)
	}
	n := &network{rules: rules, window: map[link.NetworkEvent]int{}, length: decisionWindow}
	n.proxy = egress.New(egress.Config{Rules: rules, Report: func(d egress.Decision) { r.decided(n, d) }})
	return n, nil
}

// decided counts and reports a decision: the first of its kind at once, equal ones of the same window
// together at its end.
func (r *Runner) decided(n *network, d egress.Decision) {
	kind := link.NetworkEvent{Allowed: d.Allowed, NetworkDecision: api.NetworkDecision{Host: d.Host, Port: d.Port, Rule: d.Rule, Reason: d.Reason}}
	n.mu.Lock()
	if d.Allowed {
		n.counts.Allowed++
	} else {
		n.counts.Refused++
	}
	if len(n.window) == 0 {
		time.AfterFunc(n.length, func() { r.closeWindow(n) })
	}
	_, again := n.window[kind]
	if !again && len(n.window) >= decisionsAtOnce {
		kind.NetworkDecision = api.NetworkDecision{Reason: "more than 10 different destinations in a short time"}
		again = true
	}
	if again {
		n.window[kind]++
	} else {
		n.window[kind] = 0
		n.addLocked(kind, 1)
	}
	n.mu.Unlock()
	r.reportNetwork(n)
}

// closeWindow reports the decisions that were only counted.
func (r *Runner) closeWindow(n *network) {
	n.mu.Lock()
	for kind, count := range n.window {
		if count > 0 {
			n.addLocked(kind, int64(count))
		}
	}
	if len(n.window) > 1 {
		n.length = min(2*n.length, maxWindow)
	} else {
		n.length = decisionWindow
	}
	clear(n.window)
	n.mu.Unlock()
	r.reportNetwork(n)
}

// closeNetwork ends the proxy and reports its last decisions, whose window is not over.
func (r *Runner) closeNetwork(n *network) {
	n.proxy.Close()
	r.closeWindow(n)
}

func (n *network) addLocked(e link.NetworkEvent, count int64) {
	total := &n.totals.Refused
	if e.Allowed {
		total = &n.totals.Allowed
	}
	*total += count
	e.At, e.Count, e.Total = time.Now(), count, *total
	n.unsent++
	// The elements are never moved, because reportNetwork reads them without the lock.
	if n.recent = append(n.recent, e); len(n.recent) > decisionsKept {
		n.recent = n.recent[1:]
	}
}

// reportNetwork sends the decisions to the daemon: those that it has not got yet, or all that are kept
// if the connection is new.
func (r *Runner) reportNetwork(n *network) {
	if n == nil {
		return
	}
	r.reportMu.Lock()
	defer r.reportMu.Unlock()
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	if conn == nil {
		return
	}
	n.mu.Lock()
	list := n.recent
	if n.conn == conn {
		list = list[max(0, len(list)-n.unsent):]
	}
	n.conn, n.unsent = conn, 0
	n.mu.Unlock()
	for _, e := range list {
		conn.NotifyLater(link.EventNetwork, e)
	}
	conn.Flush()
}

// serve serves a listener in the network of a process. done is closed when the process has ended;
// other processes may still be in its network.
func (n *network) serve(door *os.File, done <-chan struct{}) {
	go func() { _ = n.proxy.Serve(door) }()
	go func() {
		<-done
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.doors = append(n.doors, door); len(n.doors) > doorsKept {
			n.doors[0].Close()
			n.doors = slices.Delete(n.doors, 0, 1)
		}
	}()
}

// listen serves on the loopback of the place, for a session without a network of its own.
func (n *network) listen() (port int, err error) {
	l, port, err := egress.Listen()
	if err == nil {
		go func() { _ = n.proxy.Serve(l) }()
	}
	return port, err
}

// variables returns the variables by which programs find the proxy, except those that the creator of the
// session set. A listed loopback address belongs to the place, outside of the session's network, so
// programs must reach it through the proxy too.
func (n *network) variables(address string, given map[string]string) (env []string) {
	direct := "localhost,127.0.0.1,::1"
	if n.rules.Loopback() {
		direct = ""
	}
	for _, v := range []struct{ name, value string }{
		{"HTTP_PROXY", "http://" + address}, {"HTTPS_PROXY", "http://" + address}, {"ALL_PROXY", "http://" + address}, {"NO_PROXY", direct},
	} {
		for _, name := range []string{v.name, strings.ToLower(v.name)} {
			if _, ok := given[name]; !ok {
				env = append(env, name+"="+v.value)
			}
		}
	}
	return append(env, "NODE_USE_ENV_PROXY=1") // without it, Node.js ignores the others
}

// createdNetwork returns the network of the session, if it has been created and has one.
func (r *Runner) createdNetwork() *network {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.created {
		return nil
	}
	return r.network
}

// connections returns how many connections the proxy allowed and refused.
func (n *network) connections() *api.NetworkCounts {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	counts := n.counts
	return &counts
}
