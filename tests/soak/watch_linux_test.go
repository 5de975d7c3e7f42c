package soak_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// patience bounds a wait for something that must come true by itself.
const patience = 2 * time.Minute

// process is one line of the kernel's table.
type process struct {
	pid, parent int
	state       string
	command     string
}

func (p process) String() string {
	return fmt.Sprintf("%d (below %d, %s) %s", p.pid, p.parent, p.state, p.command)
}

// processes reads the whole table.
func processes() map[int]process {
	table := map[int]process{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		// The name may hold anything, a parenthesis too; the last one ends it.
		end := bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[end+1:]))
		pid, _ := strconv.Atoi(filepath.Base(dir))
		parent, _ := strconv.Atoi(fields[1])
		args, _ := os.ReadFile(dir + "/cmdline")
		command := strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))
		if command == "" {
			command = "[" + string(stat[bytes.IndexByte(stat, '(')+1:end]) + "]"
		}
		table[pid] = process{pid, parent, fields[0], command}
	}
	return table
}

// below returns everything that descends from pid.
func below(pid int) []process {
	table := processes()
	var list []process
	for _, p := range table {
		for at := p; at.pid > 1; at = table[at.parent] {
			if at.parent == pid {
				list = append(list, p)
				break
			}
		}
	}
	return list
}

// matching returns the processes of the machine whose command line matches.
func matching(regex string) []process {
	re := regexp.MustCompile(regex)
	var list []process
	for _, p := range processes() {
		if re.MatchString(p.command) {
			list = append(list, p)
		}
	}
	return list
}

func gone(t *testing.T, regex string) {
	t.Helper()
	testkit.EventuallyNoProblem(t, func() string {
		if left := matching(regex); len(left) > 0 {
			return fmt.Sprintf("there is %v", left)
		}
		return ""
	})
}

// footprint is what a daemon holds of the machine.
type footprint struct {
	Goroutines  int
	OpenFDs     int // as it says itself
	Descriptors int // as the kernel says
	Children    int
	Files       string // below the runtime and state directories
}

func measure(t *testing.T, d *trltest.Daemon, service api.Service) footprint {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stats, err := service.SystemStats(ctx, api.SystemStatsParams{})
	if err != nil {
		t.Fatal(err)
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.PID))
	if err != nil {
		t.Fatal(err)
	}
	return footprint{
		Goroutines: stats.Goroutines, OpenFDs: stats.OpenFDs, Descriptors: len(fds), Children: len(below(d.PID)),
		Files: strings.Join(append(files(d.RuntimeDir), files(d.StateDir)...), " "),
	}
}

// files lists a directory with everything below it.
func files(dir string) []string {
	var list []string
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if name := strings.TrimPrefix(path, dir); err == nil && name != "/events.jsonl.1" { // the journal turns its page
			list = append(list, name)
		}
		return nil
	})
	return list
}

// shells returns the shells to use here; ash is a link to busybox in dir.
func shells(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	for _, name := range []string{"dash", "bash", "zsh", "busybox", "fish"} {
		path, err := exec.LookPath(name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "SKIPPED: %s is not installed\n", name)
			continue
		}
		if name == "busybox" {
			link := filepath.Join(dir, "ash")
			if err := os.Symlink(path, link); err != nil {
				t.Fatal(err)
			}
			path = link
		}
		list = append(list, path)
	}
	return list
}

// create makes a session or ends the test.
func create(t *testing.T, service api.Service, p api.SessionCreateParams) api.SessionInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	info, err := service.SessionCreate(ctx, p)
	if err != nil {
		t.Fatalf("session.create %s: %s", p.Shell, err)
	}
	return info
}

// run runs a command that may take a minute, or ends the test.
func run(t *testing.T, service api.Service, session, command string) api.ExecResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r, err := service.ExecRun(ctx, api.ExecParams{SessionID: session, Command: command, Wait: true})
	if err != nil {
		t.Fatalf("exec.run %q: %s", command, err)
	}
	return r
}

// says runs a command and checks what it prints.
func says(t *testing.T, service api.Service, session, command, stdout string) {
	t.Helper()
	if r := run(t, service, session, command); r.Stdout != stdout || r.ExitCode != 0 {
		t.Errorf("%q: stdout %q, must be %q (stderr %q, exit_code %d)", command, r.Stdout, stdout, r.Stderr, r.ExitCode)
	}
}

// begin starts a command and returns when it has printed something. The stream has
// a connection of its own, because the test does not read it and it must not delay other answers.
func begin(t *testing.T, d *trltest.Daemon, session, command string) api.Stream {
	t.Helper()
	stream, err := d.Client(t).ExecStream(context.Background(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: session, Command: command}})
	if err != nil {
		t.Fatalf("exec.stream %q: %s", command, err)
	}
	if event, err := stream.Recv(); err != nil || event.Type != api.EventStdout {
		t.Fatalf("exec.stream %q: %+v, %v", command, event, err)
	}
	return stream
}
