package cli_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// TestLargeOutputIsWhole: the command goes as fast as its output is taken, as on a pipe.
func TestLargeOutputIsWhole(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	const size = 50_000_000
	if o := s.run(t, "run", "yes | head -c "+strconv.Itoa(size)); len(o.stdout) != size || o.status != 0 || o.stderr != "" {
		t.Errorf("%d bytes, status %d, %q", len(o.stdout), o.status, o.stderr)
	}
	// The reader begins when the command would long have written everything.
	o := s.finish(t, s.command("/bin/sh", "-c", `trl run 'yes | head -c 20000000' | { sleep 1; wc -c; }`))
	if strings.TrimSpace(o.stdout) != "20000000" || o.stderr != "" {
		t.Errorf("through a slow reader: %+v", o)
	}
}

// TestLargeResult: a result is bounded and reports what it leaves out; nothing waits for a reader.
func TestLargeResult(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	var res struct {
		Stdout          string
		StdoutBytes     int  `json:"stdout_bytes"`
		StdoutTruncated bool `json:"stdout_truncated"`
	}
	o := s.run(t, "run", "--json", "yes | head -c 20000000")
	if err := json.Unmarshal([]byte(o.stdout), &res); err != nil {
		t.Fatal(err)
	}
	if res.StdoutBytes != 20_000_000 || !res.StdoutTruncated || len(res.Stdout) != 1<<20 {
		t.Errorf("%d of %d bytes, truncated %v", len(res.Stdout), res.StdoutBytes, res.StdoutTruncated)
	}
}

func TestStreamsAreInOrder(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	// Each stream alone is in order; both together are in the order of arrival.
	o := s.run(t, "run", "i=0; while [ $i -lt 2000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done")
	for name, got := range map[string]string{"out": o.stdout, "err": o.stderr} {
		want := ""
		for i := range 2000 {
			want += name + " " + strconv.Itoa(i) + "\n"
		}
		if got != want {
			t.Errorf("std%s: %d bytes, want %d", name, len(got), len(want))
		}
	}
}
