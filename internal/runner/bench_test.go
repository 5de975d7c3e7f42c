package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
)

// BenchmarkRun is a command over the link, without daemon and socket. cpu-ns is what
// the runner itself spends on each.
func BenchmarkRun(b *testing.B) {
	for _, sh := range []string{"dash", "bash", "zsh", "ash", "fish"} {
		if !installed(sh) {
			continue
		}
		for _, command := range []string{"true", "/bin/true"} {
			b.Run(sh+"/"+command, func(b *testing.B) {
				d := start(b, api.SessionCreateParams{Shell: sh})
				d.run(command)
				took := make([]time.Duration, 0, b.N)
				cpu := cpuTime(d.cmd.Process.Pid)
				b.ResetTimer()
				for range b.N {
					begun := time.Now()
					d.run(command)
					took = append(took, time.Since(begun))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
				b.ReportMetric(float64(cpuTime(d.cmd.Process.Pid)-cpu)/float64(b.N), "cpu-ns")
			})
		}
	}
}

// cpuTime is what the threads of a process that live have used, in nanoseconds; 0 where
// the system does not tell.
func cpuTime(pid int) (sum int64) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, f := range files {
		var ns int64
		if text, err := os.ReadFile(f); err == nil {
			fmt.Sscan(string(text), &ns)
			sum += ns
		}
	}
	return sum
}
