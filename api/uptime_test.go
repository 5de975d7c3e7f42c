package api_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestUptimeOfOlderDaemons: they told fractions; what is sent is a whole number.
func TestUptimeOfOlderDaemons(t *testing.T) {
	var ping api.SystemPingResult
	if err := json.Unmarshal([]byte(`{"uptime_s":2008.68,"version":"0.1.0"}`), &ping); err != nil || ping != (api.SystemPingResult{UptimeS: 2008, Version: "0.1.0"}) {
		t.Errorf("%+v, %v", ping, err)
	}
	var stats api.SystemStatsResult
	if err := json.Unmarshal([]byte(`{"active_sessions":3,"uptime_s":1.5,"open_fds":9}`), &stats); err != nil || !reflect.DeepEqual(stats, api.SystemStatsResult{ActiveSessions: 3, UptimeS: 1, OpenFDs: 9}) {
		t.Errorf("%+v, %v", stats, err)
	}
	if text, _ := json.Marshal(ping); string(text) != `{"uptime_s":2008,"version":"0.1.0"}` {
		t.Errorf("%s", text)
	}
}
