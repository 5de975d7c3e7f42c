package api

import (
	"encoding/json"
	"time"
)

// SystemPingParams has no fields.
type SystemPingParams struct{}

// SystemPingResult is the answer of system.ping.
type SystemPingResult struct {
	UptimeS int64  `json:"uptime_s"` // whole seconds since the daemon started
	Version string `json:"version"`  // version of the daemon
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

// SystemStatsParams says what to count.
type SystemStatsParams struct {
	// Disk also asks for the sizes of the daemon's files. That reads directories, which takes
	// longer.
	Disk bool `json:"disk,omitempty"`
}

// SystemStatsResult is the answer of system.stats.
type SystemStatsResult struct {
	ActiveSessions   int   `json:"active_sessions"`    // sessions that have not ended
	TotalCommandsRun int64 `json:"total_commands_run"` // commands run since the daemon started
	UptimeS          int64 `json:"uptime_s"`           // whole seconds since the daemon started
	MemoryRSSBytes   int64 `json:"memory_rss_bytes"`   // memory of the daemon, without its sessions
	OpenFDs          int   `json:"open_fds"`           // open file descriptors of the daemon
	Connections      int   `json:"connections"`        // current client connections
	Goroutines       int   `json:"goroutines"`         // goroutines of the daemon
	// Transports are the current client connections by transport: socket, stdio, http, websocket and
	// grpc. A transport without connections is absent.
	Transports map[string]int `json:"transports"`
	EventSeq   int64          `json:"event_seq"`      // number of the last event of event.subscribe
	Disk       *DiskUsage     `json:"disk,omitempty"` // absent unless the caller asks for it
}

// DiskUsage has the sizes of the daemon's files, in bytes.
type DiskUsage struct {
	Output     int64 `json:"output_bytes"`     // output of ended sessions
	Recordings int64 `json:"recordings_bytes"` // recordings of terminals
	Dialogues  int64 `json:"dialogues_bytes"`  // records of dialogues
	Audit      int64 `json:"audit_bytes"`      // the audit log
	Other      int64 `json:"other_bytes"`      // everything else in the state directory, such as the events
	Free       int64 `json:"free_bytes"`       // bytes that the daemon may still write there
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

// SystemInfoParams says what to report.
type SystemInfoParams struct {
	// Enforcement asks also which limits and which isolation the daemon's machine can enforce. The
	// first such call tries them on a session of its own.
	Enforcement bool `json:"enforcement,omitempty"`
	// Agents asks also which coding agents the daemon finds on its PATH.
	Agents bool `json:"agents,omitempty"`
}

// InstalledAgent is a coding agent that the daemon finds on its PATH.
type InstalledAgent struct {
	Agent string   `json:"agent"` // agent of dialogue.create
	Argv  []string `json:"argv"`  // argv of dialogue.create: the program and its first arguments
	Path  string   `json:"path"`  // path of the program
}

// Enforcement says which limits and which isolation of sessions can be in force on the machine of the
// daemon, and by which mechanisms.
type Enforcement struct {
	Limits    LimitReport     `json:"limits"`    // cpus, memory_bytes and pids of a session
	Isolation IsolationReport `json:"isolation"` // the aspects of files read-only, network none and processes own
}

// SystemInfoResult is the answer of system.info.
type SystemInfoResult struct {
	Version    string `json:"version"`     // version of the daemon
	APIVersion int    `json:"api_version"` // version of this contract
	OS         string `json:"os"`          // linux or darwin
	Arch       string `json:"arch"`        // as Go names it: amd64, arm64
	PID        int    `json:"pid"`         // process id of the daemon
	// HTTP is the base of the daemon's URLs, such as http://127.0.0.1:7330; absent when HTTP is off.
	HTTP string `json:"http,omitempty"`
	// GRPC is the daemon's address for gRPC, such as grpc://127.0.0.1:7331; absent when gRPC is off.
	GRPC string `json:"grpc,omitempty"`
	// ConfigFile is the path from which the daemon reads its settings when it starts and at an
	// upgrade, even if no file is there yet.
	ConfigFile string `json:"config_file,omitempty"`
	// StartedAt is when this daemon started; a restart or an upgrade changes it.
	StartedAt time.Time `json:"started_at"`
	// Limits holds every limit by its name in the configuration.
	Limits map[string]float64 `json:"limits"`
	// Capabilities are words for the optional features that this daemon supports.
	Capabilities []string `json:"capabilities"`
	// Runtimes are the kinds of places in which this daemon can create sessions.
	Runtimes []PlaceKind `json:"runtimes"`
	Methods  []string    `json:"methods"` // all methods of this daemon
	// Enforcement is absent unless the caller wants it.
	Enforcement *Enforcement `json:"enforcement,omitempty"`
	// Agents is absent unless the caller wants it, and if the daemon finds none.
	Agents []InstalledAgent `json:"agents,omitempty"`
}

// MaxLabel is the maximum length of the label of a connection, in bytes.
const MaxLabel = 64

// SystemHelloParams gives the connection a label for people, such as cli@laptop. A client that
// reconnects sends it again.
type SystemHelloParams struct {
	Label string `json:"label"` // at most 64 bytes, without control characters
}

// Check reports the first invalid parameter.
func (p SystemHelloParams) Check() error {
	if p.Label == "" {
		return InvalidParam("label", "is required")
	}
	return checkLabel(p.Label)
}

func checkLabel(label string) error {
	if len(label) > MaxLabel || !plainText(label) {
		return InvalidParam("label", "must be at most %d bytes, without control characters", MaxLabel)
	}
	return nil
}

// SystemHelloResult says who the caller is to the daemon.
type SystemHelloResult struct {
	Caller Caller `json:"caller"` // as the audit log has it
}

// SystemUpgradeParams asks the daemon to replace itself with another program.
type SystemUpgradeParams struct {
	// Binary is the path of the new trl. Absent: the file that the daemon was started from.
	Binary string `json:"binary,omitempty"`
}

// SystemUpgradeResult is the answer of a daemon that has tested the new program and is about
// to become it. The connection then closes; the socket and the sessions stay.
type SystemUpgradeResult struct {
	PID    int    `json:"pid"`    // process id of the daemon
	Binary string `json:"binary"` // absolute path of the new program
	From   string `json:"from"`   // version of the old program
	To     string `json:"to"`     // version of the new program
}

// DefaultHTTP is the address of system.http if neither the caller nor the configuration names one.
const DefaultHTTP = "127.0.0.1:7330"

// SystemHTTPParams turns HTTP on or off. Without on, the call changes nothing.
type SystemHTTPParams struct {
	// On turns HTTP on (true) or off (false). It stays so over an upgrade; a daemon that starts
	// anew follows its configuration.
	On *bool `json:"on,omitempty"`
	// Address is the host and port to listen on; port 0 is any free port. Absent: the configured
	// http, else 127.0.0.1:7330. An address that other machines can reach needs tls_cert and
	// tls_key, or http_insecure.
	Address string `json:"address,omitempty"`
}

// Check reports the first fault.
func (p SystemHTTPParams) Check() error {
	if p.Address != "" && (p.On == nil || !*p.On) {
		return Errorf(CodeInvalidParams, "params.address: is only for on: true")
	}
	return nil
}

// SystemHTTPResult says whether the daemon serves HTTP.
type SystemHTTPResult struct {
	On  bool   `json:"on"`            // HTTP is on
	URL string `json:"url,omitempty"` // the base of the URLs, such as http://127.0.0.1:7330
	// TokenFile is the path of the file with the tokens that callers need; absent if the daemon
	// has only the token in its variable TRL_AUTH_TOKEN, or if HTTP is off.
	TokenFile string `json:"token_file,omitempty"`
	// Configured is the address in the configuration, which a daemon that starts anew serves;
	// absent if the configuration has none.
	Configured string `json:"configured,omitempty"`
}
