package metrics_test

import (
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/metrics"
)

func TestPage(t *testing.T) {
	h := metrics.NewHistogram(10*time.Millisecond, time.Second)
	if !h.Empty() {
		t.Error("a new histogram is not empty")
	}
	for _, d := range []time.Duration{-time.Second, 0, 10 * time.Millisecond, 11 * time.Millisecond, time.Hour} {
		h.Observe(d)
	}
	if h.Empty() {
		t.Error("the histogram is empty")
	}
	var p metrics.Page
	p.Single("a_total", "counter", "What a is.", 3)
	p.Family("b", "gauge", "What b is.")
	p.Value("b", 0.5, "x", "1", "y", "a \"quoted\"\nline\\")
	p.Family("c_seconds", "histogram", "What c is.")
	p.Histogram("c_seconds", h, "method", "m")
	const want = `# HELP a_total What a is.
# TYPE a_total counter
a_total 3
# HELP b What b is.
# TYPE b gauge
b{x="1",y="a \"quoted\"\nline\\"} 0.5
# HELP c_seconds What c is.
# TYPE c_seconds histogram
c_seconds_bucket{method="m",le="0.01"} 3
c_seconds_bucket{method="m",le="1"} 4
c_seconds_bucket{method="m",le="+Inf"} 5
c_seconds_sum{method="m"} 3600.021
c_seconds_count{method="m"} 5
`
	if got := p.String(); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func BenchmarkObserve(b *testing.B) {
	h := metrics.NewHistogram(time.Millisecond, 10*time.Millisecond, 100*time.Millisecond, time.Second)
	for b.Loop() {
		h.Observe(50 * time.Millisecond)
	}
}
