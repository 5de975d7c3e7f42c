package api_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestUptime: it is a whole number, and that of an older daemon, which is not, is read too.
func TestUptime(t *testing.T) {
	text, err := json.Marshal(api.SystemPingResult{UptimeS: 3, Version: "v"})
	if err != nil || string(text) != `{"uptime_s":3,"version":"v"}` {
		t.Errorf("%s, %v", text, err)
	}
	for _, uptime := range []string{"3", "3.75"} {
		var ping api.SystemPingResult
		if err := json.Unmarshal([]byte(`{"uptime_s":`+uptime+`,"version":"v"}`), &ping); err != nil || ping != (api.SystemPingResult{UptimeS: 3, Version: "v"}) {
			t.Errorf("%s: %+v, %v", uptime, ping, err)
		}
		var stats api.SystemStatsResult
		if err := json.Unmarshal([]byte(`{"uptime_s":`+uptime+`,"open_fds":7}`), &stats); err != nil || !reflect.DeepEqual(stats, api.SystemStatsResult{UptimeS: 3, OpenFDs: 7}) {
			t.Errorf("%s: %+v, %v", uptime, stats, err)
		}
	}
	var ping api.SystemPingResult
	if json.Unmarshal([]byte(`{"uptime_s":"no number"}`), &ping) == nil {
		t.Error("a text is an uptime")
	}
}
