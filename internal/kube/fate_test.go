package kube

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/trl-dev/trl/internal/kube/op"
	"github.com/trl-dev/trl/internal/testkit"
)

// answers is a cluster that answers the nth request with the nth text, and notes the requests.
type answers struct {
	texts []string // JSON; the status of a Status is that of the answer
	asked []string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r.URL.String())
	text := a.texts[min(len(a.asked), len(a.texts))-1]
	status := http.StatusOK
	if strings.Contains(text, `"code":401`) {
		status = http.StatusUnauthorized
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r,
	}, nil
}

func (a *answers) cluster(t *testing.T) *cluster {
	objects := testkit.Must(dynamic.NewForConfig(&rest.Config{Host: "http://cluster", Transport: a, QPS: -1}))(t)
	return &cluster{objects: objects, fates: map[string]*fate{}}
}

const (
	unauthorized = `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Unauthorized","code":401}`
	podPrefix    = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u","resourceVersion":"1"},"status":`
	disrupted    = podPrefix + `{"phase":"Running","conditions":[{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI","message":"Eviction API: evicting"}]}}`
	undisturbed  = podPrefix + `{"phase":"Running","conditions":[{"type":"DisruptionTarget","status":"False"}]}}`
)

// TestFate: a pod is watched until its end, also while the cluster refuses the credentials.
func TestFate(t *testing.T) {
	for _, c := range []struct {
		what, why string
		texts     []string
	}{
		{"evicted", "EvictionByEvictionAPI: Eviction API: evicting", []string{
			disrupted, `{"type":"DELETED","object":` + disrupted + `}`,
		}},
		{"an eviction that was taken back", "", []string{
			disrupted, `{"type":"MODIFIED","object":` + undisturbed + `}{"type":"DELETED","object":` + undisturbed + `}`,
		}},
		{"credentials that are renewed", "EvictionByEvictionAPI: Eviction API: evicting", []string{
			unauthorized, unauthorized, disrupted, unauthorized, disrupted, `{"type":"DELETED","object":` + disrupted + `}`,
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life, end := context.WithCancel(t.Context())
				var watches sync.WaitGroup
				defer watches.Wait()
				defer end()
				a := &answers{texts: c.texts}
				k, pod := a.cluster(t), op.Pod{Namespace: "default", Name: "p", UID: "u"}
				f := k.watch(life, &watches, pod)
				watches.Wait()
				select {
				case <-f.over:
				default:
					t.Fatalf("the watch was given up after %q", a.asked)
				}
				if why := k.reason(life, pod); why != c.why {
					t.Errorf("why %q, want %q", why, c.why)
				}
			})
		})
	}
}

// TestPlatform: the system of the nodes is known if they are few and all have the same.
func TestPlatform(t *testing.T) {
	const node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"nodeInfo":{"operatingSystem":"linux","architecture":"amd64"}}}`
	list := func(more string) string {
		return `{"apiVersion":"v1","kind":"NodeList","metadata":{"continue":"` + more + `"},"items":[` + node + `]}`
	}
	for text, known := range map[string]bool{list(""): true, list("next"): false, unauthorized: false} {
		a := &answers{texts: []string{text}}
		if pod := a.cluster(t).platform(t.Context()); (pod != nil) != known || known && *pod != (op.Pod{OS: "linux", Arch: "amd64"}) {
			t.Errorf("%s: %+v", text, pod)
		}
		if len(a.asked) != 1 || !strings.Contains(a.asked[0], "limit=100") {
			t.Errorf("asked %q", a.asked)
		}
	}
}
