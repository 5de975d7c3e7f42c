package process_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/process"
)

// The program works normally after TrimProgram.
func TestTrimProgram(t *testing.T) {
	process.TrimProgram()
	if got := strings.ToUpper("it still runs"); got != "IT STILL RUNS" {
		t.Error(got)
	}
	if info, ok := process.Stat(1); !ok || info.PID != 1 {
		t.Errorf("%+v", info)
	}
}
