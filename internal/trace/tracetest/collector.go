package tracetest

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector receives spans over OTLP/HTTP. It is safe for concurrent use.
type Collector struct {
	*httptest.Server
	t testing.TB

	mu    sync.Mutex
	text  strings.Builder // guarded by mu; all that was received
	spans []Span          // guarded by mu
}

// Span is a span that was received.
type Span struct {
	Name, TraceID, ID, ParentID string
	Attributes                  []string // such as process.exit.code=0, sorted
	Error                       string   // of its status
}

// String describes the span, without its ids.
func (s Span) String() string {
	words := append([]string{s.Name}, s.Attributes...)
	if s.Error != "" {
		words = append(words, "error", s.Error)
	}
	return strings.Join(words, " ")
}

// Start starts a collector, which ends with the test.
func Start(t testing.TB) *Collector {
	c := &Collector{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var req collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &req)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("collector: %s: %v", r.URL.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(body)
	for _, resource := range req.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				if s.EndTimeUnixNano < s.StartTimeUnixNano {
					c.t.Errorf("collector: %s ends before it begins", s.Name)
				}
				c.spans = append(c.spans, read(s))
			}
		}
	}
}

func read(s *otlp.Span) Span {
	span := Span{Name: s.Name, TraceID: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), ParentID: hex.EncodeToString(s.ParentSpanId)}
	for _, a := range s.Attributes {
		var value any = a.Value.GetStringValue()
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_IntValue:
			value = v.IntValue
		case *common.AnyValue_BoolValue:
			value = v.BoolValue
		}
		span.Attributes = append(span.Attributes, fmt.Sprint(a.Key, "=", value))
	}
	slices.Sort(span.Attributes)
	if s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
		span.Error = s.Status.Message
	}
	return span
}

// Spans returns the spans in the order in which they were received.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Received returns all bytes that were received.
func (c *Collector) Received() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}
