package limits

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Stats reads the counters.
func (g *Group) Stats() (s Stats) {
	if g == nil {
		return s
	}
	g.mu.Lock()
	either := func(controller string) string {
		if dir := g.v1[controller]; dir != "" {
			return dir
		}
		return g.seen[controller]
	}
	memory, cpu, pids, tree := either("memory"), either("cpu"), either("pids"), g.tracked
	if seen := g.seen[""]; seen != "" {
		tree = seen
	}
	inner := g.inner
	g.mu.Unlock()
	if tree != "" {
		s.UserMS, s.SystemMS, s.HasCPU = CPU(tree)
		throttled, _ := field(content(tree, "cpu.stat"), "throttled_usec")
		s.ThrottledMS = throttled / 1000
		s.MemoryBytes, s.MemoryPeakBytes = number(tree, "memory.current"), number(tree, "memory.peak")
		s.MemoryLimit = number(tree, "memory.max")
		s.Pids = number(tree, "pids.current")
		s.OOMKills, _ = field(content(tree, "memory.events"), "oom_kill")
		s.OutOfMemory, _ = field(content(tree, "memory.events.local"), "oom")
		s.ForksRefused = refused(tree)
		if inner {
			s.ForksRefused += refused(filepath.Join(tree, innerName))
		}
	}
	if memory != "" {
		s.MemoryBytes, s.MemoryPeakBytes = number(memory, "memory.usage_in_bytes"), number(memory, "memory.max_usage_in_bytes")
		s.MemoryLimit = number(memory, "memory.limit_in_bytes")
		s.OOMKills, _ = field(content(memory, "memory.oom_control"), "oom_kill")
		s.OutOfMemory = -1
	}
	if cpu != "" {
		throttled, _ := field(content(cpu, "cpu.stat"), "throttled_time")
		s.ThrottledMS = throttled / int64(time.Millisecond)
	}
	if pids != "" {
		s.Pids = number(pids, "pids.current")
		s.ForksRefused, _ = field(content(pids, "pids.events"), "max")
	}
	return s
}

// refused returns the forks that one group of the v2 tree counts. Linux 6.11 and later count a fork in the
// group whose limit refused it and in those above it, earlier ones in the group of the process that forked.
func refused(dir string) int64 {
	n, ok := field(content(dir, "pids.events.local"), "max")
	if !ok {
		n, _ = field(content(dir, "pids.events"), "max")
	}
	return n
}

// CPU returns the processor time of a group in the v2 tree, in milliseconds.
func CPU(tracked string) (user, system int64, ok bool) {
	if tracked == "" {
		return 0, 0, false
	}
	stat := content(tracked, "cpu.stat")
	user, ok = field(stat, "user_usec")
	system, _ = field(stat, "system_usec")
	return user / 1000, system / 1000, ok
}

// Peak is the most memory that a group had since NewPeak.
type Peak struct {
	dir  string   // of cgroup v1
	file *os.File // of the v2 tree, where each open file has a peak of its own
}

// NewPeak makes the peak of memory begin anew. It returns nil if the kernel cannot do that: the v2 tree
// can since Linux 6.12.
func (g *Group) NewPeak() *Peak {
	g.mu.Lock()
	dir, tree := g.v1["memory"], g.tracked
	g.mu.Unlock()
	if dir != "" {
		if put(dir, "memory.max_usage_in_bytes", "0") != nil {
			return nil
		}
		return &Peak{dir: dir}
	}
	if tree == "" {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(tree, "memory.peak"), os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	if _, err = f.WriteString("reset"); err != nil {
		f.Close()
		return nil
	}
	return &Peak{file: f}
}

// End returns the peak; 0 if it is not known.
func (p *Peak) End() int64 {
	switch {
	case p == nil:
		return 0
	case p.file == nil:
		return number(p.dir, "memory.max_usage_in_bytes")
	}
	defer p.file.Close()
	var buf [32]byte
	n, _ := p.file.ReadAt(buf[:], 0)
	peak, _ := strconv.ParseInt(strings.TrimSpace(string(buf[:n])), 10, 64)
	return peak
}
