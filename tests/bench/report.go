package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// samples are durations of the same thing.
type samples []time.Duration

// at returns a percentile in milliseconds.
func (s samples) at(percent int) float64 {
	sorted := slices.Sorted(slices.Values(s))
	return float64(sorted[min(len(sorted)-1, len(sorted)*percent/100)].Nanoseconds()) / 1e6
}

// row is one line of the report.
type row struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"` // the median, for latencies
	P99   float64 `json:"p99,omitempty"`
	N     int     `json:"n,omitempty"`
	// Floor is the same thing without TRL, Ratio what TRL takes of it.
	Floor    float64 `json:"floor,omitempty"`
	FloorP99 float64 `json:"floor_p99,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"`
	// CPU and FloorCPU are rates per second of a processor's time instead of the clock's.
	CPU      float64 `json:"cpu,omitempty"`
	FloorCPU float64 `json:"floor_cpu,omitempty"`
	Target   string  `json:"target,omitempty"`
	OK       *bool   `json:"ok,omitempty"`
	Remark   string  `json:"remark,omitempty"`
}

// report is what bench.json holds.
type report struct {
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPUs    int    `json:"cpus"`
	// Load is the load average at the start: on a busy machine nothing is fast.
	Load    string    `json:"load,omitempty"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Missed  int       `json:"missed"`
	Rows    []row     `json:"rows"`
}

func (r *report) header() {
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.Load, _, _ = strings.Cut(string(load), " ")
	}
	fmt.Printf("%s on %s/%s, %d CPUs, load %s\n", r.Version, r.OS, r.Arch, r.CPUs, r.Load)
	fmt.Printf("%-42s %10s %10s %10s %7s  %s\n", "", "p50", "p99", "floor", "ratio", "target")
}

// latency adds a latency, its floor if there is one, and its target: a time, or a
// ratio to the floor, or neither.
func (r *report) latency(name string, s, floor samples, limit time.Duration, ratio float64) {
	line := row{Name: name, Unit: "ms", Value: s.at(50), P99: s.at(99), N: len(s)}
	if floor != nil {
		line.Floor, line.FloorP99 = floor.at(50), floor.at(99)
		line.Ratio = line.Value / line.Floor
	}
	switch {
	case limit > 0:
		ms := float64(limit) / 1e6
		line.judge(fmt.Sprintf("≤ %g ms", ms), line.Value <= ms)
	case ratio > 0 && floor != nil:
		line.judge(fmt.Sprintf("≤ %g × bare", ratio), line.Ratio <= ratio)
	}
	r.add(line, fmt.Sprintf("%.3f ms", line.Value), fmt.Sprintf("%.3f ms", line.P99), fmt.Sprintf("%.3f ms", line.Floor))
}

// added adds a latency beside that without an addition, and the most that the addition may cost; 0
// for no target.
func (r *report) added(name string, s, floor samples, limit time.Duration) {
	line := row{Name: name, Unit: "ms", Value: s.at(50), P99: s.at(99), N: len(s), Floor: floor.at(50), FloorP99: floor.at(99)}
	line.Ratio = line.Value / line.Floor
	if limit > 0 {
		ms := float64(limit) / 1e6
		line.judge(fmt.Sprintf("≤ floor + %g ms", ms), line.Value <= line.Floor+ms)
	}
	r.add(line, fmt.Sprintf("%.3f ms", line.Value), fmt.Sprintf("%.3f ms", line.P99), fmt.Sprintf("%.3f ms", line.Floor))
}

// spread adds the p99 of a latency as a multiple of its p50, beside that of the floor.
func (r *report) spread(name string, s, floor samples, target float64) {
	line := row{Name: name, Unit: "×", Value: s.at(99) / s.at(50), N: len(s)}
	if floor != nil {
		line.Floor = floor.at(99) / floor.at(50)
		line.Ratio = line.Value / line.Floor
	}
	line.judge(fmt.Sprintf("≤ %g × p50", target), line.Value <= target)
	r.add(line, fmt.Sprintf("%.2f ×", line.Value), "", fmt.Sprintf("%.2f ×", line.Floor))
}

// rate adds bytes per second, with a target in MB/s.
func (r *report) rate(name string, bytes int64, took time.Duration, floor, target float64) {
	line := row{Name: name, Unit: "MB/s", Value: float64(bytes) / took.Seconds() / 1e6, Floor: floor / 1e6}
	r.addRate(line, target)
}

// speed is rate for work of the processor alone: on a busy machine the clock tells
// little, so the table has both.
func (r *report) speed(name string, ours, floor pace, target float64, remark string) {
	line := row{Name: name, Unit: "MB/s", Value: ours.wall / 1e6, Floor: floor.wall / 1e6, CPU: ours.cpu / 1e6, FloorCPU: floor.cpu / 1e6, Remark: remark}
	r.addRate(line, target)
}

func (r *report) addRate(line row, target float64) {
	if line.Floor > 0 {
		line.Ratio = line.Value / line.Floor
	}
	if target > 0 {
		line.judge(fmt.Sprintf("≥ %g MB/s", target), line.Value >= target)
	}
	r.add(line, fmt.Sprintf("%.0f MB/s", line.Value), "", fmt.Sprintf("%.0f MB/s", line.Floor))
}

// size adds bytes, with a floor and a target, or none.
func (r *report) size(name string, bytes, floor, target float64, remark string) {
	line := row{Name: name, Unit: "bytes", Value: bytes, Floor: floor, Remark: remark}
	if floor > 0 {
		line.Ratio = bytes / floor
	}
	if target > 0 {
		line.judge(fmt.Sprintf("≤ %g MB", target/1e6), bytes <= target)
	}
	r.add(line, fmt.Sprintf("%.2f MB", bytes/1e6), "", fmt.Sprintf("%.2f MB", floor/1e6))
}

// count adds how many of how many.
func (r *report) count(name string, n, of int) {
	line := row{Name: name, Unit: "count", Value: float64(n), N: of}
	line.judge(fmt.Sprintf("= %d", of), n == of)
	r.add(line, fmt.Sprint(n), "", "")
}

// note adds a figure without a target.
func (r *report) note(name, format string, seconds float64) {
	r.add(row{Name: name, Unit: "s", Value: seconds}, fmt.Sprintf(format, seconds), "", "")
}

func (l *row) judge(target string, ok bool) { l.Target, l.OK = target, &ok }

func (r *report) add(line row, value, p99, floor string) {
	if line.Floor == 0 {
		floor = ""
	}
	ratio, verdict, remark := "", "", line.Remark
	if line.Ratio > 0 {
		ratio = fmt.Sprintf("%.2f", line.Ratio)
	}
	if line.OK != nil {
		verdict = line.Target + "  ok"
		if !*line.OK {
			verdict = line.Target + "  MISSED"
			r.Missed++
		}
	}
	if line.CPU > 0 {
		remark = strings.TrimLeft(fmt.Sprintf("%s; per CPU second %.0f MB", remark, line.CPU), "; ")
	}
	if line.FloorCPU > 0 {
		remark += fmt.Sprintf(", floor %.0f MB", line.FloorCPU)
	}
	if remark != "" {
		verdict = strings.TrimLeft(verdict+"  ("+remark+")", " ")
	}
	fmt.Printf("%-42s %10s %10s %10s %7s  %s\n", line.Name, value, p99, floor, ratio, verdict)
	r.Rows = append(r.Rows, line)
}

// finish prints the sum and writes the file.
func (r *report) finish(path string) error {
	fmt.Printf("%d targets missed, %.0f s\n", r.Missed, r.Seconds)
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
