// Package trace reports sessions, commands and turns of agents as spans of OpenTelemetry, over
// OTLP/HTTP. It is off unless the configuration or the standard variables name a collector.
//
// A span has ids, the kind of the place, the family of the shell, the exit code, counts of bytes and
// the code of an error: no text of a command, no variable, no output, no answer, no name.
//
// It uses the official SDK, which adds 0.8 MB and about 0.4 ms of start time to trl, because the
// Docker client brings the half of it anyway. No call waits for an export: spans wait in a bounded
// queue, and those that find it full are dropped and counted.
package trace

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/metrics"
	"github.com/trl-dev/trl/internal/recent"
)

const (
	// maxQueued bounds the spans that wait to be exported.
	maxQueued = 2048
	// maxOpen bounds the commands and turns whose end a span waits for.
	maxOpen = 4096
	// maxEnded is how many ends are remembered for calls that have not returned yet.
	maxEnded = 1024
	// lastExport bounds the export of the last spans when the daemon ends.
	lastExport = 2 * time.Second
)

// Config configures a Tracer.
type Config struct {
	// Endpoint is the URL of a collector. Empty: the variables OTEL_EXPORTER_OTLP_… name it.
	Endpoint string
	// Commands passes TRACEPARENT to commands.
	Commands bool
	Version  string // of the daemon
	// LastExport replaces the bound of the last export; 0 for the usual one.
	LastExport time.Duration
	Logger     *slog.Logger
}

// Tracer makes spans and exports them. It is safe for concurrent use.
//
// Goroutines: that of the SDK, which exports, and one that reads events. Close waits for them, but not
// for a collector that does not answer.
type Tracer struct {
	cfg     Config
	batches sdk.SpanProcessor
	tracer  trace.Tracer
	ctx     context.Context // ends the reading of events
	stop    context.CancelFunc
	reading sync.WaitGroup
	opened  chan struct{}   // has a value when a span waits for an event
	exports context.Context // ends exports
	abort   context.CancelFunc
	// exporterEnded is closed after the last export.
	exporterEnded chan struct{}

	queued, exported, failed, dropped atomic.Int64
	failing                           atomic.Bool // the last export failed, which was logged

	mu      sync.Mutex
	open    map[string][]openSpan        // guarded by mu; by the id of the command or the dialogue
	waiting int                          // guarded by mu; how many spans open has
	ended   *recent.Map[api.StreamEvent] // guarded by mu; the last end of each id
}

// openSpan is a span that ends with an event.
type openSpan struct {
	span trace.Span
	// after is the number of an event in a dialogue. Only an event after that ends the span.
	after int64
}

// On reports whether traces are exported; if not although a variable asks for it, why.
func On(endpoint string) (on bool, why string) {
	variable := func(name string) string {
		if v := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
			return v
		}
		return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"):
		return false, ""
	case endpoint != "":
		return true, ""
	case variable("ENDPOINT") == "" || exporter != "" && exporter != "otlp":
		return false, ""
	case variable("PROTOCOL") == "grpc":
		return false, "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and TRL exports over HTTP: name a collector with trace_endpoint"
	}
	return true, ""
}

// Open makes a Tracer. It does not connect to the collector.
func Open(c Config) (*Tracer, error) {
	t := &Tracer{cfg: c, opened: make(chan struct{}, 1), exporterEnded: make(chan struct{}), open: map[string][]openSpan{}, ended: recent.New[api.StreamEvent](maxEnded)}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.exports, t.abort = context.WithCancel(context.Background())
	var options []otlptracehttp.Option
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil {
			return nil, fmt.Errorf("trace_endpoint: %w", err)
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/v1/traces"
		}
		options = append(options, otlptracehttp.WithEndpointURL(u.String()))
	}
	exporter, err := otlptracehttp.New(t.ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(t.ctx, resource.WithAttributes(attribute.String("service.name", "trl"), attribute.String("service.version", c.Version)), resource.WithFromEnv())
	if err != nil {
		c.Logger.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read", "error", err)
	}
	t.batches = sdk.NewBatchSpanProcessor(countingExporter{exporter, t}, sdk.WithMaxQueueSize(maxQueued))
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(boundedProcessor{t.batches, t}), sdk.WithResource(about))
	t.tracer = provider.Tracer("github.com/trl-dev/trl")
	return t, nil
}

// Close exports the last spans, for a short time. Commands and turns that have not ended are exported
// as unfinished.
func (t *Tracer) Close() {
	t.stop()
	t.reading.Wait()
	t.unfinished()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(t.cfg.LastExport, lastExport))
	defer cancel()
	if err := t.batches.Shutdown(ctx); err != nil {
		t.cfg.Logger.Warn("the last traces were not exported", "error", err)
	}
	t.abort()
	<-t.exporterEnded
}

// boundedProcessor drops the spans that find the queue full.
type boundedProcessor struct {
	sdk.SpanProcessor
	t *Tracer
}

// OnEnd implements sdk.SpanProcessor.
func (p boundedProcessor) OnEnd(s sdk.ReadOnlySpan) {
	if p.t.queued.Add(1) > maxQueued {
		p.t.queued.Add(-1)
		p.t.dropped.Add(1)
		return
	}
	p.SpanProcessor.OnEnd(s)
}

// countingExporter counts what is exported, and logs when that begins to fail and when it works again.
type countingExporter struct {
	sdk.SpanExporter
	t *Tracer
}

// Shutdown implements sdk.SpanExporter. The processor calls it after its last export, even if Close
// has stopped to wait for the collector by then.
func (e countingExporter) Shutdown(ctx context.Context) error {
	defer close(e.t.exporterEnded)
	return e.SpanExporter.Shutdown(ctx)
}

// ExportSpans implements sdk.SpanExporter.
func (e countingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.t.exports, cancel)()
	n := int64(len(spans))
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.t.queued.Add(-n)
	if err != nil {
		e.t.failed.Add(n)
	} else {
		e.t.exported.Add(n)
	}
	switch failed := e.t.failing.Swap(err != nil); {
	case err != nil && !failed:
		e.t.cfg.Logger.Warn("traces cannot be exported", "error", err)
	case err == nil && failed:
		e.t.cfg.Logger.Info("traces can be exported again")
	}
	return nil
}

// WriteMetrics writes what became of the spans.
func (t *Tracer) WriteMetrics(p *metrics.Page) {
	p.Family("trl_trace_spans_total", "counter", "Spans by outcome.")
	p.Value("trl_trace_spans_total", float64(t.exported.Load()), "result", "exported")
	p.Value("trl_trace_spans_total", float64(t.failed.Load()), "result", "failed")
	p.Value("trl_trace_spans_total", float64(t.dropped.Load()), "result", "dropped")
	p.Single("trl_trace_queued_spans", "gauge", "Spans that wait to be exported.", float64(t.queued.Load()))
}

// begin begins a span, as a child of the span that the caller named.
func (t *Tracer) begin(ctx context.Context, name string) (context.Context, trace.Span) {
	return t.tracer.Start(withParent(ctx), name, trace.WithSpanKind(trace.SpanKindServer))
}

// withParent returns a context with the caller's span as the parent of the next one. A malformed
// traceparent is ignored.
func withParent(ctx context.Context) context.Context {
	text := api.Traceparent(ctx)
	if text == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": text})
}

// fail ends the span of a call that failed. Only the code is reported: a message may have text of
// the caller.
func fail(span trace.Span, err error) {
	code := string(api.AsError(err).Code)
	span.SetAttributes(attribute.String("error.type", code))
	span.SetStatus(codes.Error, code)
	span.End()
}
