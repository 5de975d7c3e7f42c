package server

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/metrics"
)

// transport names how a client speaks.
type transport int

const (
	transportSocket transport = iota
	transportStdio
	transportHTTP
	transportWebSocket
	transportGRPC
	transports // how many there are
)

func (t transport) String() string {
	return [...]string{"socket", "stdio", "http", "websocket", "grpc"}[t]
}

// counts has the counters for /metrics. It is safe for concurrent use: the
// tables are made once, and their entries are atomic.
type counts struct {
	methods []string       // "" stands for an unknown method
	codes   []api.Code     // "" stands for success
	method  map[string]int // index in methods
	code    map[api.Code]int
	// requests has an entry for every transport, method and code, in this order.
	requests []atomic.Int64
	bytes    [transports]atomic.Int64 // of streams
	took     []*metrics.Histogram     // by method
}

func newCounts() *counts {
	c := &counts{methods: []string{""}, codes: []api.Code{""}, method: map[string]int{}, code: map[api.Code]int{}}
	for _, m := range api.Methods() {
		c.methods = append(c.methods, m.Name)
	}
	for _, info := range api.Codes {
		c.codes = append(c.codes, info.Code)
	}
	for i, name := range c.methods {
		c.method[name] = i
		c.took = append(c.took, metrics.NewHistogram(time.Millisecond, 10*time.Millisecond, 100*time.Millisecond, time.Second, 10*time.Second, time.Minute))
	}
	for i, code := range c.codes {
		c.code[code] = i
	}
	c.requests = make([]atomic.Int64, int(transports)*len(c.methods)*len(c.codes))
	return c
}

// request counts an answer to a call of the method, "" when none was found. It is a
// success without an error.
func (c *counts) request(t transport, method string, err error) {
	code := api.Code("")
	if err != nil {
		code = api.AsError(err).Code
		if _, known := c.code[code]; !known {
			code = api.CodeInternal
		}
	}
	c.requests[c.index(t, c.method[method], c.code[code])].Add(1)
}

func (c *counts) index(t transport, method, code int) int {
	return (int(t)*len(c.methods)+method)*len(c.codes) + code
}

// streamed counts bytes of a stream that were sent.
func (c *counts) streamed(t transport, n int) { c.bytes[t].Add(int64(n)) }

// answered counts how long the Service took for a call.
func (c *counts) answered(method string, took time.Duration) { c.took[c.method[method]].Observe(took) }

// metrics answers in the text format of Prometheus.
func (x *exchange) metrics() {
	// There is no admission here: scraping metrics must not keep an idle daemon alive.
	ctx, s := x.ctx, x.http.server
	svc := s.cfg.Service
	stats, err := svc.SystemStats(ctx, api.SystemStatsParams{})
	if err != nil {
		x.fail(api.AsError(err))
		return
	}
	list, err := svc.SessionList(ctx, api.SessionListParams{})
	if err != nil {
		x.fail(api.AsError(err))
		return
	}
	ping, _ := svc.SystemPing(ctx, api.SystemPingParams{})

	var p metrics.Page
	p.Family("trl_build_info", "gauge", "The version of the daemon; always 1.")
	p.Value("trl_build_info", 1, "version", ping.Version, "go_version", runtime.Version())
	p.Single("trl_uptime_seconds", "gauge", "Time since the daemon started.", float64(stats.UptimeS))
	states, unreachable := map[api.SessionState]int{}, 0
	for _, one := range list.Sessions {
		states[one.State]++
		if !one.Reachable {
			unreachable++
		}
	}
	p.Family("trl_sessions", "gauge", "Sessions by state.")
	for _, state := range []api.SessionState{api.SessionCreating, api.SessionIdle, api.SessionRunning, api.SessionTerminated} {
		p.Value("trl_sessions", float64(states[state]), "state", string(state))
	}
	p.Single("trl_sessions_unreachable", "gauge", "Live sessions whose runners do not answer.", float64(unreachable))
	p.Single("trl_execs_total", "counter", "Commands that were accepted.", float64(stats.TotalCommandsRun))
	p.Family("trl_connections", "gauge", "Clients that are connected.")
	for t, n := range s.connections() {
		p.Value("trl_connections", float64(n), "transport", transport(t).String())
	}
	p.Family("trl_requests_total", "counter", "Answers by method and code; OK is a success.")
	s.counts.each(func(t transport, method string, code api.Code, n int64) {
		if code == "" {
			code = "OK"
		}
		p.Value("trl_requests_total", float64(n), "transport", t.String(), "method", method, "code", string(code))
	})
	p.Family("trl_request_duration_seconds", "histogram", "Time from a call to its answer; of a stream, to its beginning.")
	for i, h := range s.counts.took {
		if !h.Empty() {
			p.Histogram("trl_request_duration_seconds", h, "method", s.counts.methods[i])
		}
	}
	p.Family("trl_streamed_bytes_total", "counter", "Bytes of streams and of raw output that were sent.")
	for t := range transports {
		p.Value("trl_streamed_bytes_total", float64(s.counts.bytes[t].Load()), "transport", t.String())
	}
	for _, write := range s.cfg.Metrics {
		write(&p)
	}
	usage, err := svc.UsageSubscribe(ctx, api.UsageSubscribeParams{})
	writeUsage(&p, usage, err)
	p.Single("process_resident_memory_bytes", "gauge", "Memory of the daemon; its sessions are other processes.", float64(stats.MemoryRSSBytes))
	p.Single("process_open_fds", "gauge", "Open descriptors of the daemon.", float64(stats.OpenFDs))
	p.Single("go_goroutines", "gauge", "Goroutines of the daemon.", float64(stats.Goroutines))
	x.answer("text/plain; version=0.0.4; charset=utf-8", []byte(p.String()))
}

// writeUsage writes what the sessions use, measured now. A session that does not answer is missing.
// The label is the id alone: callers choose the name, which can say for whom they work.
func writeUsage(p *metrics.Page, stream api.Stream, err error) {
	if err != nil {
		return
	}
	defer stream.Close()
	push, err := stream.Recv()
	if err != nil {
		return
	}
	for _, f := range []struct {
		name, kind, help string
		value            func(api.SessionUsage) float64
	}{
		{"trl_session_cpu_seconds_total", "counter", "Processor time of the session.", func(u api.SessionUsage) float64 { return float64(u.UserMS+u.SystemMS) / 1000 }},
		{"trl_session_memory_bytes", "gauge", "Memory of the session's processes.", func(u api.SessionUsage) float64 { return float64(u.MemoryBytes) }},
		{"trl_session_processes", "gauge", "Processes of the session.", func(u api.SessionUsage) float64 { return float64(u.Processes) }},
		{"trl_session_disk_read_bytes", "gauge", "Bytes that the session's living processes read from disks.", func(u api.SessionUsage) float64 { return float64(u.ReadBytes) }},
		{"trl_session_disk_written_bytes", "gauge", "Bytes that the session's living processes wrote to disks.", func(u api.SessionUsage) float64 { return float64(u.WrittenBytes) }},
		{"trl_session_throttled_seconds_total", "counter", "Time for which the limit cpus stopped the session's processes.", func(u api.SessionUsage) float64 { return float64(u.ThrottledMS) / 1000 }},
		{"trl_session_forks_refused_total", "counter", "Processes that the limit pids refused.", func(u api.SessionUsage) float64 { return float64(u.ForksRefused) }},
		{"trl_session_oom_kills_total", "counter", "Processes that the kernel killed because of a memory limit.", func(u api.SessionUsage) float64 { return float64(u.OOMKills) }},
	} {
		p.Family(f.name, f.kind, f.help)
		for _, u := range push.Sessions {
			p.Value(f.name, f.value(u), "session_id", u.SessionID)
		}
	}
}

// each calls f for every count that is not zero.
func (c *counts) each(f func(t transport, method string, code api.Code, n int64)) {
	for t := range transports {
		for m, method := range c.methods {
			for k, code := range c.codes {
				if n := c.requests[c.index(t, m, k)].Load(); n > 0 {
					f(t, method, code, n)
				}
			}
		}
	}
}

// Transports returns how many clients are connected, by transport.
func (s *Server) Transports() map[string]int {
	list := map[string]int{}
	for t, n := range s.connections() {
		if n > 0 {
			list[transport(t).String()] = n
		}
	}
	return list
}

// connections counts the clients by transport.
func (s *Server) connections() (n [transports]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		n[c.transport]++
	}
	for _, c := range s.webConns {
		if !c.upgraded {
			n[transportHTTP]++
		}
	}
	return n
}
