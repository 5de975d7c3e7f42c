package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/egress"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// A flood of decisions makes few events, which count all of them.
func TestDecisionEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runner{}
		n, err := r.newNetwork([]string{"a.example:443"})
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			r.decided(n, egress.Decision{Host: "a.example", Port: 443, Allowed: true, Rule: "a.example:443"})
		}
		for i := range 500 {
			r.decided(n, egress.Decision{Host: "x" + strconv.Itoa(i) + ".example", Port: 80, Reason: "no rule allows it"})
		}
		time.Sleep(2 * decisionWindow)
		n.mu.Lock()
		defer n.mu.Unlock()
		var allowed, refused int64
		for _, e := range n.recent {
			if e.Allowed {
				allowed += e.Count
			} else {
				refused += e.Count
			}
		}
		if allowed != 1000 || refused != 500 || len(n.recent) != 12 || n.counts.Allowed != 1000 || n.counts.Refused != 500 {
			t.Errorf("%d allowed, %d refused in %d events, %+v", allowed, refused, len(n.recent), n.counts)
		}
		if first := n.recent[0]; first.Count != 1 || first.Host != "a.example" || first.Rule != "a.example:443" {
			t.Errorf("%+v", first)
		}
		if !slices.ContainsFunc(n.recent, func(e link.NetworkEvent) bool { return e.Host == "" && e.Count == 491 }) {
			t.Errorf("%+v", n.recent)
		}
	})
}

// A program that never stops makes few events in the long run.
func TestDecisionsOfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runner{}
		n, err := r.newNetwork(nil)
		if err != nil {
			t.Fatal(err)
		}
		events := 0
		for i := range 7200 {
			r.decided(n, egress.Decision{Host: "x" + strconv.Itoa(i) + ".example", Port: 80, Reason: "no rule allows it"})
			time.Sleep(500 * time.Millisecond)
			n.mu.Lock()
			events += n.unsent
			n.unsent = 0
			n.mu.Unlock()
		}
		if events > 1000 {
			t.Errorf("%d events in an hour", events)
		}
		time.Sleep(2 * maxWindow)
	})
}

// heard keeps the events of the network that a daemon gets on one connection.
type heard struct {
	conn *link.Conn
	done chan struct{} // closed when nothing more is read

	mu   sync.Mutex
	list []link.NetworkEvent // guarded by mu
}

func (*heard) Handle(context.Context, *link.Incoming) error { return nil }

func (h *heard) Event(_ string, header json.RawMessage, _ []byte) {
	var e link.NetworkEvent
	_ = json.Unmarshal(header, &e)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, e)
}

// ports returns the ports and totals of the events.
func (h *heard) ports() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []string
	for _, e := range h.list {
		list = append(list, fmt.Sprintf("%d:%d", e.Port, e.Total))
	}
	return strings.Join(list, " ")
}

// TestDecisionsOnEachConnection: a runner cannot know which events arrived before a connection broke, so
// the next one gets the last events again, with the same totals, and events that were made between. They
// arrive before the first answer about the session, which may have ended.
func TestDecisionsOnEachConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runner{created: true, state: api.SessionTerminated, store: output.NewStore(output.StoreConfig{}), loneTimer: time.NewTimer(time.Hour)}
		r.calls = r.routes()
		n, err := r.newNetwork(nil)
		if err != nil {
			t.Fatal(err)
		}
		r.network = n
		number := int64(0)
		connect := func() *heard {
			number++
			ours, theirs := net.Pipe()
			r.serve(ours, number)
			h := &heard{conn: link.NewConn(theirs), done: make(chan struct{})}
			go func() {
				defer close(h.done)
				_ = h.conn.Serve(h)
			}()
			hello := link.Hello.With(&link.HelloParams{Protocol: link.Protocol}, nil, &link.HelloResult{})
			info := link.Info.With(&struct{}{}, nil, &link.SessionDetails{})
			for _, call := range []link.Outgoing{hello, info, hello, info} { // the last two cause no repetition
				if _, err := h.conn.Call(t.Context(), call); err != nil {
					t.Fatal(err)
				}
			}
			return h
		}
		leave := func(h *heard) {
			h.conn.Close()
			<-h.done
			synctest.Wait()
		}
		decide := func(port int, allowed bool) {
			r.decided(n, egress.Decision{Host: "a.example", Port: port, Allowed: allowed})
			time.Sleep(2 * decisionWindow)
		}
		want := func(h *heard, want string) {
			t.Helper()
			if got := h.ports(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		h := connect()
		decide(1, true)
		decide(2, false)
		want(h, "1:1 2:1")
		leave(h)
		decide(3, true)
		h = connect()
		want(h, "1:1 2:1 3:2")
		decide(4, true)
		want(h, "1:1 2:1 3:2 4:3")
		leave(h)
		var last []string
		for i := range decisionsKept {
			decide(100+i, false)
			last = append(last, fmt.Sprintf("%d:%d", 100+i, 2+i))
		}
		h = connect()
		want(h, strings.Join(last, " "))
		for range 3 {
			r.decided(n, egress.Decision{Host: "a.example", Port: 5})
		}
		r.closeNetwork(n) // with the last two, which were only counted
		synctest.Wait()
		want(h, strings.Join(append(last, "5:102", "5:104"), " "))
		leave(h)
		r.loneTimer.Stop()
	})
}

// The variables of the proxy replace those of the place, but not those that the session was given.
func TestProxyVariables(t *testing.T) {
	r := &Runner{}
	for rule, direct := range map[string]string{"a.example": "localhost,127.0.0.1,::1", "127.0.0.1:3000": "", "localhost:1": "", "[::1]:1": ""} {
		n, err := r.newNetwork([]string{rule})
		if err != nil {
			t.Fatal(err)
		}
		env := withVariables([]string{"A=b", "http_proxy=http://elsewhere", "HTTP_PROXY=given"}, n.variables("127.0.0.1:3128", map[string]string{"HTTP_PROXY": "given"}))
		for _, want := range []string{"A=b", "http_proxy=http://127.0.0.1:3128", "HTTP_PROXY=given", "no_proxy=" + direct} {
			if !slices.Contains(env, want) {
				t.Errorf("%s: %v has no %s", rule, env, want)
			}
		}
		if slices.Contains(env, "http_proxy=http://elsewhere") {
			t.Errorf("%v", env)
		}
	}
	if _, err := r.newNetwork([]string{"a.*.example"}); err == nil {
		t.Error("a bad rule was taken")
	}
}
