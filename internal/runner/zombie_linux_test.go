package runner_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestNoZombies leaves a session alone after background children of its shell have ended,
// with and without the command's output. They must be gone without another command, and
// the shell must still know their status.
func TestNoZombies(t *testing.T) {
	for _, sh := range []string{"dash", "ash", "bash", "zsh"} {
		t.Run(sh, func(t *testing.T) {
			if !installed(sh) {
				t.Skip(sh + " is not installed")
			}
			d := start(t, api.SessionCreateParams{Shell: sh})
			shell, err := strconv.Atoi(strings.TrimSpace(d.run("echo $$").stdout))
			if err != nil {
				t.Fatal(err)
			}
			d.run("sh -c 'sleep 0.2; exit 7' & A=$!; sh -c 'sleep 0.4; exit 8' >/dev/null 2>&1 & B=$!")
			if len(process.Children(shell)) == 0 {
				t.Fatal("there are no children to begin with")
			}
			testkit.EventuallyNoProblem(t, func() string { // the kernel does not report another process's children
				if left := process.Children(shell); len(left) > 0 {
					return fmt.Sprintf("children of the idle shell: %v", left)
				}
				return ""
			})
			if r := d.run("wait $A; echo $?; wait $B; echo $?"); r.stdout != "7\n8\n" {
				t.Errorf("their status: %q", r.stdout)
			}
		})
	}
}
