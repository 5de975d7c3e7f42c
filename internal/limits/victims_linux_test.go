package limits

import (
	"path/filepath"
	"testing"
)

func TestScores(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		own    int
		shared int64
		want   Scores
	}{
		{0, 0, Scores{0, 300}}, {200, 0, Scores{200, 500}}, {-500, 0, Scores{-500, -200}}, {900, 0, Scores{900, 1000}},
		// The points of the shell are worth 32 MiB of the limit, but at most 300.
		{0, 8 * mib, Scores{300, 600}}, {0, 64 * mib, Scores{300, 600}}, {0, 128 * mib, Scores{251, 551}},
		{0, 1 << 30, Scores{32, 332}}, {0, 1 << 40, Scores{1, 301}},
		// A pod of the classes Guaranteed and Burstable. The order is kept in what is left.
		{-997, 64 * mib, Scores{-697, -397}}, {-300, 64 * mib, Scores{0, 300}},
		{990, 64 * mib, Scores{995, 1000}}, {998, 64 * mib, Scores{999, 1000}}, {998, 1 << 30, Scores{998, 1000}}, {1000, 64 * mib, Scores{1000, 1000}},
	} {
		if got := ScoresFor(c.own, c.shared); got != c.want {
			t.Errorf("own score %d, shared limit %d: %+v, want %+v", c.own, c.shared, got, c.want)
		}
	}
}

func TestMemoryOf(t *testing.T) {
	const none = "9223372036854771712\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"v2", map[string]string{"memory.max": "8192\n", "a/memory.max": "4096\n", "a/b/memory.max": "max\n"}, 4096},
		{"v2, above", map[string]string{"memory.max": "4096\n", "a/memory.max": "max\n", "a/b/memory.max": "8192\n"}, 4096},
		{"v2, none", map[string]string{"a/memory.max": "max\n"}, 0},
		{"v1", map[string]string{"memory.limit_in_bytes": none, "a/memory.limit_in_bytes": none, "a/b/memory.limit_in_bytes": "4096\n"}, 4096},
		{"v1, none", map[string]string{"memory.limit_in_bytes": none, "a/b/memory.limit_in_bytes": "4611686018427387904\n"}, 0},
		{"no memory", nil, 0},
	} {
		files := map[string]string{"cgroup.procs": "", "a/cgroup.procs": "", "a/b/cgroup.procs": ""}
		for name, text := range c.files {
			files[name] = text
		}
		if got := memoryOf(filepath.Join(tree(t, files), "a/b")); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if got := OwnMemory(); got != 0 { // see TestMain
		t.Errorf("without cgroups: %d", got)
	}
}
