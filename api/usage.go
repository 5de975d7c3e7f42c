package api

import "time"

// EventUsage is the type of a push of usage.subscribe.
const EventUsage = "usage"

// DefaultUsageInterval is the time between two pushes of usage.subscribe, in seconds.
const DefaultUsageInterval = 2.0

// UsageSubscribeParams asks for the resources that sessions use.
type UsageSubscribeParams struct {
	// SessionID selects one session, by id or name; all live sessions when absent.
	SessionID string `json:"session_id,omitempty"`
	// IntervalS is the number of seconds between two pushes, from 0.1 to 3600; 2 when absent. TRL
	// measures only while a caller is subscribed.
	IntervalS *float64 `json:"interval_s,omitempty"`
}

// Check reports the first invalid parameter.
func (p UsageSubscribeParams) Check() error {
	if s := p.IntervalS; s != nil && !(*s >= 0.1 && *s <= 3600) {
		return InvalidParam("interval_s", "must be a number of seconds from 0.1 to 3600")
	}
	return nil
}

// Interval returns the time between two pushes.
func (p UsageSubscribeParams) Interval() time.Duration {
	s := DefaultUsageInterval
	if p.IntervalS != nil {
		s = *p.IntervalS
	}
	return time.Duration(s * float64(time.Second))
}

// SessionUsage is what a session uses now. If the session's cgroup does the counting, processes that
// left the session's process tree are included.
type SessionUsage struct {
	SessionID string       `json:"session_id"`        // the session
	Name      string       `json:"name"`              // empty if the session has no name
	State     SessionState `json:"state"`             // idle or running
	Command   string       `json:"command,omitempty"` // the running command
	// CPUPercent is the processor time since the previous push, in percent of one processor;
	// absent in the first push.
	CPUPercent *float64 `json:"cpu_percent,omitempty"`
	UserMS     int64    `json:"user_ms"`   // CPU time in user mode since the session began
	SystemMS   int64    `json:"system_ms"` // CPU time in the kernel
	// MemoryBytes is the memory of its processes: as the cgroup counts it, or else the sum of
	// their resident sizes.
	MemoryBytes  int64 `json:"memory_bytes"`
	Processes    int64 `json:"processes"`     // processes, with the shell
	ReadBytes    int64 `json:"read_bytes"`    // read from disks by its living processes
	WrittenBytes int64 `json:"written_bytes"` // written to disks by its living processes
	ThrottledMS  int64 `json:"throttled_ms"`  // time for which the limit cpus stopped processes
	ForksRefused int64 `json:"forks_refused"` // processes that the limit pids refused
	OOMKills     int64 `json:"oom_kills"`     // processes that the kernel killed because of a memory limit
}
