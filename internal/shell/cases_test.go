package shell_test

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/cases"
)

// TestCases runs the cases of tests/cases directly on a Shell, in every installed shell:
//
//	go test ./internal/shell -run 'TestCases/^bash$/own-kept'
//
// Cases that call other methods than exec.run need the daemon and run in tests/cases alone.
func TestCases(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for i, name := range cases.Tested {
		list, err := cases.Corpus("../../tests/cases/testdata", "2"+strconv.Itoa(i)) // tests/cases marks its own with a 1
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			t.Run(name, func(t *testing.T) { runCases(t, name, dir, list, "") })
		})
	}
	group.Wait()
}

// everywhere makes TestCasesIsolated run the cases that take long in every shell, and not in bash alone.
var everywhere = flag.Bool("all", os.Getenv("TRL_TEST_PLACES") == "all", "run the cases that take long in every isolated shell")

// TestCasesIsolated runs the cases in isolated shells, one of each kind. Those that take long wait for most
// of their time, so they run beside the others.
func TestCasesIsolated(t *testing.T) {
	testkit.Long(t)
	if runtime.GOOS != "linux" {
		t.Skip("isolation is tested on Linux")
	}
	dir := t.TempDir()
	var group sync.WaitGroup
	for i, name := range []string{"bash", "sh", "zsh", "fish", "ash"} {
		list, err := cases.Corpus("../../tests/cases/testdata", "9"+strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		slow := slices.DeleteFunc(slices.Clone(list), func(c cases.Case) bool { return !c.IsSlow() })
		list = slices.DeleteFunc(list, cases.Case.IsSlow)
		group.Go(func() {
			t.Run(name, func(t *testing.T) { runCases(t, name, dir, list, filepath.Join(dir, "namespaces")) })
		})
		for part := range slices.Chunk(slow, max(1, len(slow)/6)) { // most of them only wait
			if name == "bash" || *everywhere {
				group.Go(func() {
					t.Run(name+"-slow", func(t *testing.T) { runCases(t, name, dir, part, filepath.Join(dir, "namespaces")) })
				})
			}
		}
	}
	group.Wait()
}

// runCases runs cases in one shell, isolated if memo is not empty: there the first one remembers that
// namespaces work.
func runCases(t *testing.T, name, dir string, list []cases.Case, memo string) {
	found, err := cases.FindShell(name, dir)
	if err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: all cases of %s: %s\n", name, err)
		t.Skip(err)
	}
	for _, c := range list {
		if !slices.Contains(c.Shells, cases.Base(name)) || c.CallsMethods() {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			if reason := c.SkipReason(found); reason != "" {
				t.Skip(reason)
			}
			if testing.Short() && c.IsSlow() {
				t.Skip("slow")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			runner := cases.Runner{Service: startHost(t, memo), Scale: 3} // the race detector is slow, and other tests run
			for _, bad := range runner.Run(ctx, c, found) {
				t.Error(bad)
			}
		})
	}
}

// startHost starts a process for one Shell and returns its methods. The shell is isolated if memo is
// not empty.
func startHost(t *testing.T, memo string) api.Service {
	t.Helper()
	id := make([]byte, 8)
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	dir := filepath.Join(testkit.Dir(t), hex.EncodeToString(id), "sh")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envHost+"="+dir, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if memo != "" {
		cmd.Env = append(cmd.Env, envIsolate+"="+filepath.Join(filepath.Dir(dir), "private"), envMemo+"="+memo)
	}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := client.New(stdio{stdout, stdin})
	t.Cleanup(func() {
		c.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the host of the shell: %s", err)
		}
	})
	return c
}
