//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// report is what is printed.
type report struct {
	machine string
	rows    []row
	skipped []string
}

// machine says what this machine is, and how busy it was at the start.
func machine() string {
	load, _ := os.ReadFile("/proc/loadavg")
	fields := append(strings.Fields(string(load)), "?", "?", "?")
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, Linux %s on %s, %d processors,\nload average %s, %s, %s at the start", time.Now().UTC().Format("2006-01-02"),
		strings.TrimSpace(string(release)), runtime.GOARCH, runtime.NumCPU(), fields[0], fields[1], fields[2])
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s.\n\n", r.machine)
	b.WriteString("| | version | `true`, median | × floor | 100 MB of output | × floor |\n|---|---|---|---|---|---|\n")
	var floor row
	if len(r.rows) > 0 {
		floor = r.rows[0]
	}
	for _, s := range r.rows {
		latency, rate := "fails", s.remark
		var slower, ratio string
		if s.latency > 0 {
			latency = fmt.Sprintf("%.2f ms", float64(s.latency.Microseconds())/1e3)
			slower = fmt.Sprintf("%.2f", float64(s.latency)/float64(floor.latency))
		}
		if s.rate > 0 {
			rate = fmt.Sprintf("%.0f MB/s", s.rate/1e6)
			ratio = fmt.Sprintf("%.2f", s.rate/floor.rate)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", s.name, s.version, latency, slower, rate, ratio)
	}
	b.WriteString("\n| | `sleep … &` returns | timeout of 1 s with a `setsid` child | `exit 3` | forged marker | `kill -9` of the server |\n|---|---|---|---|---|---|\n")
	for _, s := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", s.name, s.background, s.timeout, s.exit, s.forged, s.afterKill)
	}
	if len(r.skipped) > 0 {
		b.WriteString("\nSkipped:\n\n")
		for _, line := range r.skipped {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	return b.String()
}
