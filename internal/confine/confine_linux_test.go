package confine_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/internal/confine"
	"github.com/trl-dev/trl/internal/process"
)

// TestMain is also the program that Start starts: a copy of this one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == confine.Verb {
		os.Exit(confine.Enter(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// run starts a program confined and returns what it writes.
func run(t *testing.T, c *confine.Confinement, argv ...string) (string, error) {
	t.Helper()
	reaper := process.NewReaper()
	defer reaper.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	spec := process.Spec{Path: argv[0], Args: argv, Env: []string{"A=b"}, Files: []*os.File{null, theirs, theirs}}
	p, err := confine.Start(reaper.Start, spec, c)
	theirs.Close()
	text, readErr := io.ReadAll(out)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if err == nil {
		<-p.Done()
	}
	return string(text), err
}

// The program has its limits, its arguments and its environment, and no other descriptor.
func TestStart(t *testing.T) {
	files := &confine.Confinement{Rlimits: []confine.Rlimit{{Resource: syscall.RLIMIT_NOFILE, Max: 40}}}
	const script = `ulimit -Sn; ulimit -Hn; echo "$0 $1 $A"; for fd in 3 4 5 6 7 8 9; do (true >&$fd) 2>/dev/null && echo $fd; done; true`
	if text, err := run(t, files, "/bin/sh", "-c", script, "x y", "z"); err != nil || text != "40\n40\nx y z b\n" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := run(t, nil, "/bin/echo", "plain"); err != nil || text != "plain\n" {
		t.Errorf("without a confinement: %q, %v", text, err)
	}
}

// A confinement that cannot be applied, or a program that cannot be started, is an error of Start.
func TestStartFails(t *testing.T) {
	missing := t.TempDir() + "/cgroup.procs"
	for want, c := range map[string]*confine.Confinement{
		"/bin/not-there": {Rlimits: []confine.Rlimit{{Resource: syscall.RLIMIT_NOFILE, Max: 40}}},
		missing:          {Join: []string{missing}},
	} {
		text, err := run(t, c, "/bin/not-there")
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), want) || text != "" {
			t.Errorf("%s: %q, %v", want, text, err)
		}
	}
}
