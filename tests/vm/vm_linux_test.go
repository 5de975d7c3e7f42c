package vm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// echoVariable makes the test copy the console of the machine to stderr.
const echoVariable = "TRL_TEST_VM_ECHO"

func TestMain(m *testing.M) {
	switch {
	case os.Args[0] == initPath && os.Getpid() == 1:
		reap()
	case os.Args[0] == initPath:
		os.Exit(boot())
	case os.Args[0] == "sudo":
		fmt.Fprintln(os.Stderr, sudo())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestVirtualMachine boots the machine and reports the tests that run in it as tests of its own.
func TestVirtualMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("a virtual machine takes minutes")
	}
	m, why := find()
	if why != "" {
		fmt.Fprintf(os.Stderr, "SKIPPED: %s: %s\nNOT TESTED: limits with cgroup v2, as root and with a delegated subtree; isolation with another kernel\n", t.Name(), why)
		t.Skip(why)
	}
	began := time.Now()
	initrd := m.image(t, testPrograms(t))
	t.Logf("built in %s", time.Since(began).Round(time.Second))
	console := m.run(t, initrd, "rdinit="+initPath)
	t.Logf("ended after %s", time.Since(began).Round(time.Second))
	seen := 0
	for _, r := range runs {
		text, ok := section(console, r.name)
		if !ok {
			continue
		}
		seen++
		t.Run(r.name, func(t *testing.T) { report(t, text) })
	}
	if seen < len(runs) || !bytes.Contains(console, []byte(allDone)) {
		t.Errorf("the machine ran %d of %d programs; its console:\n%s", seen, len(runs), tail(console, 8<<10))
	}
}

// section returns what one program has written.
func section(console []byte, name string) ([]byte, bool) {
	_, rest, found := bytes.Cut(console, []byte(beginMark+name+"\n"))
	text, _, whole := bytes.Cut(rest, []byte(endMark+name+"\n"))
	return text, found && whole
}

// result is how one test ended.
type result struct{ name, action, output string }

// report turns the output of a test program into tests.
func report(t *testing.T, text []byte) {
	results := parse(t, text)
	if failed(text) || len(results) == 0 {
		t.Errorf("%s", tail(text, 4<<10))
	}
	for _, res := range results {
		t.Run(res.name, func(t *testing.T) {
			t.Log(res.output)
			if res.action != "pass" { // what a test needs is there, so none may skip
				t.Errorf("in the virtual machine: %s", res.action)
			}
		})
	}
}

// failed reports whether a program failed, or left groups behind.
func failed(text []byte) bool {
	return bytes.Contains(text, []byte(failMark)) || bytes.Contains(text, []byte(leftMark))
}

// parse splits the output of a test program by its tests.
func parse(t *testing.T, text []byte) (results []result) {
	t.Helper()
	c := exec.Command("go", "tool", "test2json")
	c.Stdin = bytes.NewReader(text)
	events, err := c.Output()
	if err != nil {
		t.Fatalf("test2json: %v", err)
	}
	output := map[string]string{}
	for line := range bytes.Lines(events) {
		var e struct{ Action, Test, Output string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("test2json: %s: %v", line, err)
		}
		output[e.Test] += e.Output
		if e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			results = append(results, result{e.Test, e.Action, ""})
		}
	}
	for i := range results {
		results[i].output = output[results[i].name]
	}
	return results
}

// run starts the machine, with options for its kernel, and returns what it has written to its console.
func (m machine) run(t *testing.T, initrd, options string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	// Always emulated: that is the same everywhere, and a machine that is virtual itself may offer a
	// KVM that cannot run this kernel. One processor, because two emulated ones are slower. No check of the
	// timer, because the kernel panics if too few ticks come in time, as on a busy machine.
	c := exec.CommandContext(ctx, m.qemu, "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "1536", "-nic", "none",
		"-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot", "-kernel", m.kernel, "-initrd", initrd,
		"-append", "console=ttyS0 quiet loglevel=1 panic=-1 no_timer_check "+options)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var console bytes.Buffer
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if os.Getenv(echoVariable) != "" {
			os.Stderr.Write(line)
		}
		console.Write(bytes.TrimRight(line, "\r\n"))
		console.WriteByte('\n')
		if err != nil {
			break
		}
	}
	if err := c.Wait(); err != nil {
		t.Errorf("qemu: %v", err)
	}
	return console.Bytes()
}

func tail(text []byte, n int) []byte { return text[max(0, len(text)-n):] }
