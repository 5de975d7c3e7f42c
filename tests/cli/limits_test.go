package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestLimitsOfNewSessions: every command that makes a session which stays can say when it ends.
func TestLimitsOfNewSessions(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for flag, end := range map[string]struct {
		seconds float64
		why     string
	}{"--lifetime": {600, "lifetime"}, "--idle-timeout": {1200, "idle"}} {
		name := strings.TrimPrefix(flag, "--")
		limit := fmt.Sprintf("%gs", end.seconds)
		for _, args := range [][]string{
			{"new", flag, limit, name + "-new"},
			{"run", "-s", name + "-run", flag, limit, "true"},
			{"start", "-s", name + "-start", flag, limit, "true"},
			{"start", flag, limit, "true"},
		} {
			o := s.run(t, args...)
			if o.status != 0 {
				t.Fatalf("%s: %+v", args, o)
			}
			session := name + "-" + args[0]
			if args[0] == "start" {
				own, _, _ := strings.Cut(strings.TrimPrefix(o.stdout, "x-"), "-")
				session = "s-" + own
				s.run(t, "wait", strings.TrimSpace(o.stdout))
			}
			info := s.info(t, session)
			if info.EndsInS == nil || *info.EndsInS > end.seconds || !strings.Contains(info.EndsWhy, end.why) {
				t.Errorf("%s: %+v", args, info)
			}
		}
	}
	s.run(t, "record", "-o", "r.cast", "--name", "rec", "--lifetime", "0.3", "--", "sleep", "1000")
	if info := s.info(t, "rec"); !strings.Contains(info.Cause, "lifetime") {
		t.Errorf("record: %+v", info)
	}

	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"run", "--lifetime", "1h", "true"}, 125, "--lifetime needs a session that stays: see -s"},
		{[]string{"run", "-t", "--idle-timeout", "1h", "true"}, 125, "--idle-timeout needs a session that stays: see -s"},
		{[]string{"run", "-s", "lifetime-run", "--lifetime", "1h", "true"}, 125, `session "lifetime-run": already exists; --lifetime is only for a new one`},
		{[]string{"start", "-s", "lifetime-run", "--idle-timeout", "1h", "true"}, 125, `session "lifetime-run": already exists; --idle-timeout is only for a new one`},
	} {
		if o := s.run(t, c.args...); o.status != c.status || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%s: %+v, want %d %s", c.args, o, c.status, c.want)
		}
	}
}

// ending is when and why a session ends, or has ended.
type ending struct {
	EndsInS *float64 `json:"ends_in_s"`
	EndsWhy string   `json:"ends_why"`
	Cause   string   `json:"cause"`
}

// info asks when a session ends.
func (s *sandbox) info(t *testing.T, session string) (e ending) {
	t.Helper()
	o := s.run(t, "call", "session.info", fmt.Sprintf(`{"session_id":%q}`, session))
	if err := json.Unmarshal([]byte(o.stdout), &e); err != nil {
		t.Fatalf("%s: %+v, %v", session, o, err)
	}
	return e
}

// TestResourceLimits: a person sees why a command died, or why its limit cannot be had.
func TestResourceLimits(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	o := s.run(t, "run", "--memory", "64M", "--", "perl", "-e", `$x = "x" x (200 << 20)`)
	if strings.Contains(o.stderr, "limit memory_bytes cannot be enforced") {
		if o.status != 125 || !strings.Contains(o.stderr, "hint: `trl doctor` says which limits work here") {
			t.Errorf("%+v", o)
		}
		return
	}
	if o.status != 137 || !strings.HasPrefix(o.stderr, "trl: out of memory: the kernel killed ") {
		t.Errorf("%+v", o)
	}
	if o = s.run(t, "new", "--pids", "50", "few"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	if o = s.run(t, "info", "few"); !strings.Contains(o.stdout, "limit\tpids 50 (cgroup-v") {
		t.Errorf("%+v", o)
	}
	if o = s.run(t, "top", "--once", "--interval", "0.1", "-s", "few"); o.status != 0 || !strings.Contains(o.stdout, "\nfew ") {
		t.Errorf("%+v", o)
	}
}
