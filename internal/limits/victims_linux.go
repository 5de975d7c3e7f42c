package limits

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/internal/process"
)

// noLimit is less than the value that stands for no limit in cgroup v1, and than that of a container
// whose limit was removed.
const noLimit = 1 << 50

// OwnMemory returns the smallest memory limit of the groups of this process, as far as it sees them;
// 0 for none.
func OwnMemory() (least int64) {
	for _, dir := range append(process.OwnCgroups(""), process.OwnCgroups("memory")...) {
		if n := memoryOf(dir); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// memoryOf returns the smallest memory limit of a group and those above it; 0 for none.
func memoryOf(dir string) (least int64) {
	for ; exists(dir, "cgroup.procs"); dir = filepath.Dir(dir) {
		for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
			if n := number(dir, file); n > 0 && n < noLimit && (least == 0 || n < least) {
				least = n
			}
		}
	}
	return least
}

// OwnScores returns the scores of a session of this process, which is the runner. Shared is that of
// ScoresFor.
func OwnScores(shared int64) Scores {
	return ScoresFor(scoreOf("self"), shared)
}

func scoreFile(pid string) string { return "/proc/" + pid + "/oom_score_adj" }

func scoreOf(pid string) int {
	text, _ := os.ReadFile(scoreFile(pid))
	score, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return score
}

// Prefer gives processes at least that score.
func Prefer(pids []int, score int) {
	for _, pid := range pids {
		if pid := strconv.Itoa(pid); scoreOf(pid) < score {
			_ = os.WriteFile(scoreFile(pid), []byte(strconv.Itoa(score)), 0)
		}
	}
}
