package daemon

import "github.com/trl-dev/trl/internal/metrics"

// metrics returns the parts of the daemon that write to /metrics.
func (d *daemon) metrics() []func(*metrics.Page) {
	list := []func(*metrics.Page){d.registry.WriteMetrics}
	if d.audit != nil {
		list = append(list, d.audit.WriteMetrics)
	}
	return list
}
