package runner

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/internal/egress"
	"github.com/trl-dev/trl/internal/link"
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
		for _, e := range n.unsent {
			if e.Allowed {
				allowed += e.Count
			} else {
				refused += e.Count
			}
		}
		if allowed != 1000 || refused != 500 || len(n.unsent) != 12 || n.counts.Allowed != 1000 || n.counts.Refused != 500 {
			t.Errorf("%d allowed, %d refused in %d events, %+v", allowed, refused, len(n.unsent), n.counts)
		}
		if first := n.unsent[0]; first.Count != 1 || first.Host != "a.example" || first.Rule != "a.example:443" {
			t.Errorf("%+v", first)
		}
		if !slices.ContainsFunc(n.unsent, func(e link.NetworkEvent) bool { return e.Host == "" && e.Count == 491 }) {
			t.Errorf("%+v", n.unsent)
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
			events += len(n.unsent)
			n.unsent = nil
			n.mu.Unlock()
		}
		if events > 1000 {
			t.Errorf("%d events in an hour", events)
		}
		time.Sleep(2 * maxWindow)
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
