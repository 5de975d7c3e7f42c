package process_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

// The environment variables of the test binary when it starts itself again.
const (
	envHelper   = "TRL_TEST_HELPER"   // run as a program, see helpers
	envIsolated = "TRL_TEST_ISOLATED" // run this one test
	envMark     = "TRL_TEST_MARK"     // in every process that a test starts
)

// helpers are programs that tests start. They run on the main thread.
var helpers = map[string]func(){}

func init() {
	if os.Getenv(envHelper) != "" {
		runtime.LockOSThread() // TestMain then runs on the main thread
	}
}

func TestMain(m *testing.M) {
	if name := os.Getenv(envHelper); name != "" {
		helpers[name]()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// isolated runs the body in a separate process, because a Reaper reaps all children of its process,
// and a subreaper adopts all orphans. The process must end with neither children nor goroutines.
func isolated(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	if os.Getenv(envIsolated) == t.Name() {
		process.Sanitize() // as every process that has a Reaper does: under nohup children would ignore SIGHUP
		// Even if the test fails, no process is left behind.
		t.Cleanup(func() { process.KillAll(marked(), syscall.SIGKILL, 0) })
		body(t)
		if left := process.Children(os.Getpid()); len(left) > 0 {
			t.Errorf("children left: %s", describe(left))
		}
		return
	}
	var pattern []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.timeout=60s", "-test.run="+strings.Join(pattern, "/"))
	// The race detector would sleep for a second at the end of each process.
	cmd.Env = append(os.Environ(), envIsolated+"="+t.Name(), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.WaitDelay = 5 * time.Second // a process that was left behind may hold the pipe
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skipf("%s", out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Fatalf("the test did not run:\n%s", out)
	}
}

func describe(pids []int) string {
	var list []string
	for _, pid := range pids {
		info, _ := process.Stat(pid)
		list = append(list, strconv.Itoa(pid)+" "+string(info.State)+" "+process.CommandLine(pid))
	}
	return strings.Join(list, "; ")
}

// child is a process under test, with its stdin and stdout.
type child struct {
	*process.Process
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a program that has the mark in its environment.
func start(t *testing.T, r *process.Reaper, spec process.Spec) *child {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inW.Close(); outR.Close() })
	spec.Files = []*os.File{inR, outW, os.Stderr}
	spec.Env = append(spec.Env, "PATH="+os.Getenv("PATH"), envMark+"="+mark())
	p, err := r.Start(spec)
	inR.Close()
	outW.Close()
	if err != nil {
		t.Fatal(err)
	}
	return &child{Process: p, in: inW, out: bufio.NewReader(outR)}
}

// shell starts a script.
func shell(t *testing.T, r *process.Reaper, script string) *child {
	t.Helper()
	return start(t, r, process.Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}})
}

// helper starts the test binary as one of the helpers.
func helper(t *testing.T, r *process.Reaper, name string) *child {
	t.Helper()
	return start(t, r, process.Spec{
		Path: os.Args[0], Args: []string{"helper"},
		Env: []string{envHelper + "=" + name, "GORACE=atexit_sleep_ms=0"},
	})
}

// expect reads a line of the child's output.
func (c *child) expect(t *testing.T, want string) {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != want {
		t.Fatalf("process %d said %q (%v), not %q", c.PID, line, err, want)
	}
}

func (c *child) number(t *testing.T) int {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("process %d: %v", c.PID, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("process %d said %q, not a number", c.PID, line)
	}
	return n
}

func (c *child) wait(t *testing.T) process.Exit {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(20 * time.Second):
		t.Fatalf("process %d (%s) does not end", c.PID, process.CommandLine(c.PID))
	}
	return c.Exit()
}

// mark returns a value that is unique to this run of the tests.
func mark() string { return "pid" + strconv.Itoa(os.Getpid()) }

// marked returns the processes that have the mark of this test, wherever they are in the tree.
func marked() []process.Info {
	self, _ := process.Stat(os.Getpid())
	return process.Marked(envMark, mark(), self.StartTime)
}

// allReaped waits until the Reaper has reaped all children.
func allReaped(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "no children are left", func() bool { return len(process.Children(os.Getpid())) == 0 })
}

func mustStat(t *testing.T, pid int) process.Info {
	t.Helper()
	info, ok := process.Stat(pid)
	if !ok {
		t.Fatalf("process %d: not found", pid)
	}
	return info
}

func pidsOf(infos []process.Info) []int {
	var pids []int
	for _, i := range infos {
		pids = append(pids, i.PID)
	}
	slices.Sort(pids)
	return pids
}
