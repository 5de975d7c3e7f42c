package api

// SystemPingParams has no fields.
type SystemPingParams struct{}

// SystemPingResult is what system.ping answers.
type SystemPingResult struct {
	UptimeS float64 `json:"uptime_s"`
	Version string  `json:"version"`
}

// SystemStatsParams has no fields.
type SystemStatsParams struct{}

// SystemStatsResult is what system.stats answers.
type SystemStatsResult struct {
	ActiveSessions   int     `json:"active_sessions"`
	TotalCommandsRun int64   `json:"total_commands_run"`
	UptimeS          float64 `json:"uptime_s"`
	MemoryRSSBytes   int64   `json:"memory_rss_bytes"`
	OpenFDs          int     `json:"open_fds"`
	Connections      int     `json:"connections"`
	Goroutines       int     `json:"goroutines"`
}

// SystemInfoParams has no fields.
type SystemInfoParams struct{}

// SystemInfoResult is what system.info answers.
type SystemInfoResult struct {
	Version    string `json:"version"`
	APIVersion int    `json:"api_version"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	PID        int    `json:"pid"`
	// Limits holds every limit by its name in the configuration.
	Limits map[string]float64 `json:"limits"`
	// Capabilities are words for what this daemon can do here.
	Capabilities []string `json:"capabilities"`
	Methods      []string `json:"methods"`
}
