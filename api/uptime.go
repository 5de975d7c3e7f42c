package api

import "encoding/json"

// Daemons up to version 0.1 told their uptime with a fraction. A client of today must be able
// to talk with one, if only to replace it.

// UnmarshalJSON takes an uptime with a fraction too.
func (r *SystemPingResult) UnmarshalJSON(data []byte) error {
	type plain SystemPingResult
	read := struct {
		*plain
		UptimeS float64 `json:"uptime_s"`
	}{plain: (*plain)(r)}
	err := json.Unmarshal(data, &read)
	r.UptimeS = int64(read.UptimeS)
	return err
}

// UnmarshalJSON takes an uptime with a fraction too.
func (r *SystemStatsResult) UnmarshalJSON(data []byte) error {
	type plain SystemStatsResult
	read := struct {
		*plain
		UptimeS float64 `json:"uptime_s"`
	}{plain: (*plain)(r)}
	err := json.Unmarshal(data, &read)
	r.UptimeS = int64(read.UptimeS)
	return err
}
