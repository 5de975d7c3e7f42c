// Package metrics has the parts of /metrics: a page in the text format of Prometheus, and a histogram
// that costs a call two atomic additions. Each package that counts something writes its own families
// to the page. Labels have few values, which the program knows; no text of a caller is one of them.
package metrics

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Page is a text in the format of Prometheus. It is not safe for concurrent use.
type Page struct{ text strings.Builder }

// String returns the text.
func (p *Page) String() string { return p.text.String() }

// Family begins a family of samples. The kind is gauge, counter or histogram.
func (p *Page) Family(name, kind, help string) {
	fmt.Fprintf(&p.text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// Value writes one sample; labels are names and values by turns.
func (p *Page) Value(name string, v float64, labels ...string) {
	p.text.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		p.text.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&p.text, "%s=\"%s\"", labels[i], labelText.Replace(labels[i+1]))
	}
	if len(labels) > 0 {
		p.text.WriteString("}")
	}
	fmt.Fprintf(&p.text, " %v\n", v)
}

var labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Single writes a family that has one sample without labels.
func (p *Page) Single(name, kind, help string, v float64) {
	p.Family(name, kind, help)
	p.Value(name, v)
}

// Histogram writes the samples of a histogram.
func (p *Page) Histogram(name string, h *Histogram, labels ...string) {
	labels = labels[:len(labels):len(labels)]
	n := int64(0)
	for i := range h.counts {
		le := "+Inf"
		if i < len(h.bounds) {
			le = strconv.FormatFloat(h.bounds[i].Seconds(), 'g', -1, 64)
		}
		n += h.counts[i].Load()
		p.Value(name+"_bucket", float64(n), append(labels, "le", le)...)
	}
	p.Value(name+"_sum", float64(h.sum.Load())/float64(time.Second), labels...)
	p.Value(name+"_count", float64(n), labels...)
}

// Histogram counts durations in buckets. It is safe for concurrent use.
type Histogram struct {
	bounds []time.Duration // of the buckets, increasing
	counts []atomic.Int64  // for each bound, and for what is longer
	sum    atomic.Int64    // in nanoseconds
}

// NewHistogram makes a histogram with these upper bounds, which increase.
func NewHistogram(bounds ...time.Duration) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

// Observe counts a duration. A negative one, of a clock that was set back, is 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Empty reports whether nothing was counted.
func (h *Histogram) Empty() bool {
	for i := range h.counts {
		if h.counts[i].Load() > 0 {
			return false
		}
	}
	return true
}
