package soak_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestGigabyte writes 1 GB. Neither runner nor daemon may grow with it, and the
// count is exact.
func TestGigabyte(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--output-bytes", "1MiB"))
	service := daemon.Client(t)
	s := create(t, service, api.SessionCreateParams{})
	write := func(bytes int64) {
		t.Helper()
		r := run(t, service, s.SessionID, fmt.Sprintf("echo HEAD; head -c %d /dev/zero; echo TAIL", bytes))
		if r.StdoutBytes != bytes+10 || !r.StdoutTruncated {
			t.Errorf("stdout_bytes %d, must be %d; stdout_truncated %t", r.StdoutBytes, bytes+10, r.StdoutTruncated)
		}
		if !strings.HasPrefix(r.Stdout, "HEAD\n\x00") || !strings.HasSuffix(r.Stdout, "\x00TAIL\n") {
			t.Errorf("head and tail are not kept: %q … %q", r.Stdout[:min(10, len(r.Stdout))], r.Stdout[max(0, len(r.Stdout)-10):])
		}
	}
	for range 12 { // as large as buffers and heap get
		write(50_000_000)
	}
	info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: s.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	runner, own := peak(t, info.RunnerPID), peak(t, daemon.PID)
	write(1_000_000_000)
	// The race detector keeps shadows of what it has seen; a log that grew would
	// show as hundreds of megabytes.
	const slack = 64 << 20
	if now := peak(t, info.RunnerPID); now > runner+slack {
		t.Errorf("the runner grew from %d to %d bytes", runner, now)
	}
	if now := peak(t, daemon.PID); now > own+slack {
		t.Errorf("the daemon grew from %d to %d bytes", own, now)
	}
}

// peak is the largest resident size a process ever had.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("process %d has no VmHWM", pid)
	return 0
}

// TestForkStorm ends 255 processes that multiply until the last moment.
func TestForkStorm(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "0.5"))
	service := daemon.Client(t)
	script := `f() { if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & wait; else sleep 28.5; fi; }; f 7`
	for _, shell := range shells(t, t.TempDir()) {
		t.Run(shell[strings.LastIndexByte(shell, '/')+1:], func(t *testing.T) {
			s := create(t, service, api.SessionCreateParams{Shell: shell})
			defer destroy(t, service, s.SessionID)
			set, get := "V=kept", "echo $V"
			if strings.HasSuffix(shell, "fish") {
				set = "set -g V kept"
			}
			run(t, service, s.SessionID, set)
			for _, stubborn := range []string{"", "trap '' TERM; "} {
				r, err := service.ExecRun(context.Background(), api.ExecParams{
					SessionID: s.SessionID, Command: "sh -c " + quote(stubborn+script), TimeoutS: new(0.7),
				})
				if err != nil || !r.TimedOut {
					t.Fatalf("%+v, %v", r, err)
				}
				if left := matching(`28\.5`); len(left) > 0 {
					t.Errorf("%d processes are left: %v", len(left), left[:min(len(left), 5)])
				}
				says(t, service, s.SessionID, get, "kept\n")
			}
		})
	}
}

// quote makes a text one word of any shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
