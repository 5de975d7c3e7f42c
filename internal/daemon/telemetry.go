package daemon

import (
	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/metrics"
	"github.com/trl-dev/trl/internal/trace"
	"github.com/trl-dev/trl/internal/version"
)

// openTraces makes the tracer, if the configuration or the variables of OpenTelemetry ask for one.
func (d *daemon) openTraces() (err error) {
	on, why := trace.On(d.config.TraceEndpoint)
	if why != "" {
		d.log.Warn("traces are off", "cause", why)
	}
	if !on {
		return nil
	}
	d.traces, err = trace.Open(trace.Config{Endpoint: d.config.TraceEndpoint, Commands: d.config.TraceCommands, Version: version.Version, Logger: d.log})
	if err == nil {
		d.traces.Follow(d.registry.Journal())
	}
	return err
}

// closeTraces exports the last spans.
func (d *daemon) closeTraces() {
	if d.traces != nil {
		d.traces.Close()
	}
}

// traced returns a service whose calls make spans.
func (d *daemon) traced(s api.Service) api.Service {
	if d.traces == nil {
		return s
	}
	return d.traces.Wrap(s)
}

// metrics returns the parts of the daemon that write to /metrics.
func (d *daemon) metrics() []func(*metrics.Page) {
	list := []func(*metrics.Page){d.registry.WriteMetrics}
	if d.audit != nil {
		list = append(list, d.audit.WriteMetrics)
	}
	if d.traces != nil {
		list = append(list, d.traces.WriteMetrics)
	}
	return list
}
