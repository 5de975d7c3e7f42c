package trace

import (
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/trl-dev/trl/api"
)

// TestOn: without a setting or a variable there are no traces.
func TestOn(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	for _, c := range []struct {
		setting   string
		variables []string
		on, why   bool
	}{
		{},
		{setting: "http://127.0.0.1:4318", on: true},
		{variables: []string{endpoint}, on: true},
		{variables: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/v1/traces"}, on: true},
		{variables: []string{endpoint, "OTEL_TRACES_EXPORTER=none"}},
		{variables: []string{endpoint, "OTEL_TRACES_EXPORTER=otlp"}, on: true},
		{variables: []string{endpoint, "OTEL_SDK_DISABLED=true"}},
		{setting: "http://127.0.0.1:4318", variables: []string{"OTEL_SDK_DISABLED=TRUE"}},
		{variables: []string{endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, why: true},
		{variables: []string{endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"}, on: true},
		{setting: "http://127.0.0.1:4318", variables: []string{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, on: true},
	} {
		t.Run("", func(t *testing.T) {
			for _, v := range c.variables {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			if on, why := On(c.setting); on != c.on || (why != "") != c.why {
				t.Errorf("%+v: %v, %q", c, on, why)
			}
		})
	}
}

// FuzzTraceparent: a text that W3C Trace Context does not allow is ignored.
func FuzzTraceparent(f *testing.F) {
	for _, text := range []string{
		"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
		"00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01", " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "\x00\xff\r\n",
	} {
		f.Add(text)
	}
	format := regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)
	f.Fuzz(func(t *testing.T, text string) {
		got := trace.SpanContextFromContext(withParent(api.WithTraceparent(t.Context(), text)))
		m := format.FindStringSubmatch(text)
		if !got.IsValid() {
			return
		}
		if m == nil || got.TraceID().String() != m[1] || got.SpanID().String() != m[2] || !got.IsRemote() || strings.HasPrefix(text, "ff") {
			t.Errorf("%q is %v", text, got)
		}
	})
}
