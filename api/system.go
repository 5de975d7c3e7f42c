package api

import (
	"encoding/json"
	"time"
)

// SystemPingParams has no fields.
type SystemPingParams struct{}

// SystemPingResult is what system.ping answers.
type SystemPingResult struct {
	UptimeS int64  `json:"uptime_s"` // whole seconds since the daemon started
	Version string `json:"version"`  // of the daemon
}

// UnmarshalJSON also takes the answer of an older daemon, whose uptime has a fraction.
func (r *SystemPingResult) UnmarshalJSON(b []byte) error {
	type fields SystemPingResult
	in := struct {
		*fields
		UptimeS float64 `json:"uptime_s"`
	}{fields: (*fields)(r)}
	err := json.Unmarshal(b, &in)
	r.UptimeS = int64(in.UptimeS)
	return err
}

// SystemStatsParams has no fields.
type SystemStatsParams struct{}

// SystemStatsResult is what system.stats answers.
type SystemStatsResult struct {
	ActiveSessions   int   `json:"active_sessions"`    // those that have not ended
	TotalCommandsRun int64 `json:"total_commands_run"` // since the daemon started
	UptimeS          int64 `json:"uptime_s"`           // whole seconds since the daemon started
	MemoryRSSBytes   int64 `json:"memory_rss_bytes"`   // of the daemon alone
	OpenFDs          int   `json:"open_fds"`           // of the daemon
	Connections      int   `json:"connections"`        // of clients, now
	Goroutines       int   `json:"goroutines"`         // of the daemon
}

// UnmarshalJSON also takes the answer of an older daemon, whose uptime has a fraction.
func (r *SystemStatsResult) UnmarshalJSON(b []byte) error {
	type fields SystemStatsResult
	in := struct {
		*fields
		UptimeS float64 `json:"uptime_s"`
	}{fields: (*fields)(r)}
	err := json.Unmarshal(b, &in)
	r.UptimeS = int64(in.UptimeS)
	return err
}

// SystemInfoParams has no fields.
type SystemInfoParams struct{}

// SystemInfoResult is what system.info answers.
type SystemInfoResult struct {
	Version    string `json:"version"`     // of the daemon
	APIVersion int    `json:"api_version"` // of this contract
	OS         string `json:"os"`          // linux or darwin
	Arch       string `json:"arch"`        // as Go names it: amd64, arm64
	PID        int    `json:"pid"`         // of the daemon
	// HTTP is the base of the daemon's URLs, such as http://127.0.0.1:7330; absent when HTTP is off.
	HTTP string `json:"http,omitempty"`
	// GRPC is the daemon's address for gRPC, such as grpc://127.0.0.1:7331; absent when gRPC is off.
	GRPC string `json:"grpc,omitempty"`
	// StartedAt is when this daemon began; after a restart or an upgrade it is another.
	StartedAt time.Time `json:"started_at"`
	// Limits holds every limit by its name in the configuration.
	Limits map[string]float64 `json:"limits"`
	// Capabilities are words for what this daemon can do here.
	Capabilities []string `json:"capabilities"`
	Methods      []string `json:"methods"` // all that this daemon has
}

// SystemUpgradeParams asks the daemon to replace itself by another program.
type SystemUpgradeParams struct {
	// Binary is the path of the new trl. Absent: the file the daemon was started from.
	Binary string `json:"binary,omitempty"`
}

// SystemUpgradeResult is answered when the new program was tried and found good. The
// connection ends then; the socket stays, and the sessions too.
type SystemUpgradeResult struct {
	PID    int    `json:"pid"`    // of the daemon
	Binary string `json:"binary"` // absolute path of the new program
	From   string `json:"from"`   // version
	To     string `json:"to"`     // version
}
