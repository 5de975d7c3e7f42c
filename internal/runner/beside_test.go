package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/testkit"
)

// direct runs a program beside the shell to its end.
func (d *daemon) direct(p api.ExecParams, argv ...string) result {
	d.t.Helper()
	p.Argv = argv
	r, err := d.try(p)
	if err != nil {
		d.t.Fatalf("%q: %v", argv, err)
	}
	return r
}

// beginDirect starts a program beside the shell.
func (d *daemon) beginDirect(p link.ExecParams, argv ...string) api.ExecInfo {
	d.t.Helper()
	info, err := d.tryBegin(p, argv...)
	if err != nil {
		d.t.Fatalf("%q: %v", argv, err)
	}
	return info
}

func (d *daemon) tryBegin(p link.ExecParams, argv ...string) (info api.ExecInfo, err error) {
	p.Argv, p.SessionID = argv, d.id
	_, err = d.conn.Call(context.Background(), link.ExecStart.With(&p, nil, &info))
	return info, err
}

func (d *daemon) signal(p api.ExecSignalParams) (r api.ExecSignalResult, err error) {
	_, err = d.conn.Call(context.Background(), link.ExecSignal.With(&p, nil, &r))
	return r, err
}

func TestBesideLife(t *testing.T) {
	d := launch(t)
	d.listen()
	if _, err := d.create(api.SessionCreateParams{WorkingDir: "/usr", Env: map[string]string{"A": "session", "B": "session"}}, ""); err != nil {
		t.Fatal(err)
	}
	d.run("cd /tmp; export B=shell")
	stdin := "in"
	r := d.direct(api.ExecParams{Env: map[string]string{"A": "own"}, Stdin: &stdin}, "sh", "-c", `cat; echo " $A $B $PWD $1 $TRL_EXEC_ID"; echo err >&2; exit 3`, "sh", "a  b")
	if want := "in own session /usr a  b " + r.ExecID + "\n"; r.stdout != want || r.stderr != "err\n" || r.ExitCode != 3 || r.WorkingDir != "/usr" || r.Signal != "" {
		t.Errorf("%q, %q, %s; want %q", r.stdout, r.stderr, text(r.ExecOutcome), want)
	}
	if r := d.direct(api.ExecParams{WorkingDir: "/tmp"}, "pwd"); r.stdout != "/tmp\n" || r.WorkingDir != "/tmp" {
		t.Errorf("%q in %q", r.stdout, r.WorkingDir)
	}
	if r := d.direct(api.ExecParams{}, "sh", "-c", "kill -SEGV $$"); r.ExitCode != 139 || r.Signal != "SIGSEGV" {
		t.Errorf("%s", text(r.ExecOutcome))
	}
	if r := d.run("pwd; echo $A $B $TRL_EXEC_ID"); r.stdout != "/tmp\nsession shell\n" {
		t.Errorf("the shell: %q", r.stdout)
	}
	x := d.beginDirect(link.ExecParams{OpenStdin: true}, "cat", "-", "it's")
	if x.PID == 0 || !alive(x.PID) || x.State != api.ExecRunning || strings.Join(x.Argv, ",") != "cat,-,it's" || x.Command != `cat - 'it'\''s'` || !x.StdinOpen {
		t.Errorf("%s", text(x))
	}
	if s := d.details(); s.State != api.SessionIdle || s.Parallel != 1 || s.ExecID != "" {
		t.Errorf("%s", text(s))
	}
	d.write(x.ExecID, "hello", false)
	d.read(x.ExecID, func(out string) bool { return out == "hello" })
	d.write(x.ExecID, "", true)
	if _, oc := d.read(x.ExecID, nil); oc.ExitCode != 1 { // the file it's does not exist
		t.Errorf("%s", text(oc))
	}
	states, _ := d.history(x.ExecID, api.ExecClosed)
	if got := strings.Join(states, " "); got != "queued running exited closed" {
		t.Errorf("told: %s", got)
	}
	if s := d.details(); s.Parallel != 0 {
		t.Errorf("%s", text(s))
	}
}

func TestBesideThatCannotStart(t *testing.T) {
	d := start(t, api.SessionCreateParams{})
	plain := filepath.Join(t.TempDir(), "plain")
	touch(t, plain)
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("\x7fELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		argv string
		p    api.ExecParams
		code api.Code
		text string
	}{
		{"no-such-program", api.ExecParams{}, api.CodeShellNotFound, `program "no-such-program": not found`},
		{"no-such-program", api.ExecParams{Wait: true}, api.CodeShellNotFound, `not found`},
		{"sh", api.ExecParams{Env: map[string]string{"PATH": "/nowhere"}}, api.CodeShellNotFound, "not found"},
		{plain, api.ExecParams{}, api.CodeShellFailed, "not an executable file"},
		{broken, api.ExecParams{}, api.CodeShellFailed, "exec format error"},
		{"true", api.ExecParams{WorkingDir: "/no/such"}, api.CodeInvalidParams, "working_dir"},
	} {
		c.p.Argv = []string{c.argv}
		_, err := d.try(c.p)
		if e := api.AsError(err); e == nil || e.Code != c.code || !strings.Contains(e.Message, c.text) {
			t.Errorf("%s: run: %v", c.argv, err)
		}
		_, err = d.tryBegin(link.ExecParams{ExecParams: c.p}, c.argv)
		if e := api.AsError(err); e == nil || e.Code != c.code || !strings.Contains(e.Message, c.text) {
			t.Errorf("%s: start: %v", c.argv, err)
		}
	}
	if s := d.details(); s.Parallel != 0 || len(s.Processes) != 0 {
		t.Errorf("%s", text(s))
	}
}

// TestBesideInParallel: 64 programs run at once, each with its own output, and the shell beside them.
// The 65th is refused or waits.
func TestBesideInParallel(t *testing.T) {
	d := start(t, api.SessionCreateParams{})
	gate := filepath.Join(t.TempDir(), "gate")
	const n = 64
	var ids [n]string
	for i := range n {
		// Each waits until all have started, and writes more than a pipe holds.
		ids[i] = d.beginDirect(link.ExecParams{}, "sh", "-c", `while ! [ -e "$1" ]; do sleep 0.05; done; i=0; while [ $i -lt 3000 ]; do echo "$2 $i line of output"; i=$((i+1)); done; echo "e$2" >&2; exit $2`, "sh", gate, strconv.Itoa(i)).ExecID
	}
	_, err := d.tryBegin(link.ExecParams{}, "true")
	if e := api.AsError(err); e == nil || e.Code != api.CodeResourcePressure || !strings.Contains(e.Message, "max_parallel") {
		t.Errorf("one more: %v", err)
	}
	waiting := d.beginDirect(link.ExecParams{ExecParams: api.ExecParams{Wait: true}}, "echo", "waited")
	if waiting.State != api.ExecQueued || waiting.PID != 0 {
		t.Errorf("%s", text(waiting))
	}
	given := d.beginDirect(link.ExecParams{ExecParams: api.ExecParams{Wait: true}}, "touch", gate+".never")
	if x, err := d.cancel(api.ExecCancelParams{ExecID: given.ExecID}); err != nil || x.State != api.ExecClosed || !x.Outcome.Cancelled {
		t.Errorf("%s, %v", text(x), err)
	}
	if s := d.details(); s.Parallel != n || s.Queued != 1 || s.State != api.SessionIdle {
		t.Errorf("%s", text(s.SessionInfo))
	}
	d.run("touch " + gate) // the shell is free
	for i, id := range ids {
		out, oc := d.read(id, nil)
		var want strings.Builder
		for k := range 3000 {
			fmt.Fprintf(&want, "%d %d line of output\n", i, k)
		}
		if got := strings.Replace(out, fmt.Sprintf("e%d\n", i), "", 1); got != want.String() || oc.ExitCode != i || oc.StderrBytes == 0 {
			t.Errorf("%d: %d bytes, want %d; %s", i, len(got), want.Len(), text(oc))
		}
	}
	if out, oc := d.read(waiting.ExecID, nil); out != "waited\n" || oc.ExitCode != 0 {
		t.Errorf("%q, %s", out, text(oc))
	}
	if exists(gate + ".never") {
		t.Error("a cancelled program ran")
	}
}

// escapes are ways to leave the tree, the group and the session of a program. Each script prints
// the process ids of its parts, one on each line, and does not end.
var escapes = map[string]string{
	"plain":        `echo $$; sleep 300 & echo $!; wait`,
	"ignores TERM": `trap "" TERM INT HUP; echo $$; while :; do sleep 300; done`,
	"setsid":       `echo $$; setsid sh -c 'echo $$; exec sleep 300' & wait`,
	"double fork":  `echo $$; (setsid sh -c '(sh -c "echo \$\$; trap \"\" TERM HUP; while :; do sleep 300; done" &) ; exit 0' &); sleep 300`,
	"no output":    `echo $$; (setsid sh -c 'echo $$; exec sleep 300 >/dev/null 2>&1 </dev/null' &); sleep 300`,
	"environment":  `echo $$; (setsid env -i PATH="$PATH" sh -c 'echo $$; exec sleep 300' &); sleep 300`,
	"new group":    `echo $$; bash -c 'set -m; sh -c "echo \$\$; exec sleep 300" & wait'`,
}

// pidsOf waits until a program has printed n process ids.
func (d *daemon) pidsOf(id string, n int) (pids []int) {
	d.t.Helper()
	out, _ := d.read(id, func(out string) bool { return strings.Count(out, "\n") >= n })
	for _, line := range strings.Fields(out) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			d.t.Fatalf("%q", out)
		}
		pids = append(pids, pid)
	}
	return pids
}

func ended(t testing.TB, what string, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		testkit.Eventually(t, fmt.Sprintf("%s: the end of %d", what, pid), func() bool { return !alive(pid) })
	}
}

// TestBesideKill: a cancel and a timeout end everything that a program has started, wherever that
// went, and nothing else.
func TestBesideKill(t *testing.T) {
	testkit.Long(t)
	modes(t, func(t *testing.T, d *daemon) {
		// Bystanders: a background job of the shell, a command in the shell, another program.
		job, _ := strconv.Atoi(strings.TrimSpace(d.run("sleep 301 >/dev/null 2>&1 & echo $!").stdout))
		command := d.begin(api.ExecParams{Command: escapes["setsid"]})
		bystanders := append(d.pidsOf(command.ExecID, 2)[1:], job)
		other := d.beginDirect(link.ExecParams{}, "sh", "-c", escapes["double fork"])
		bystanders = append(bystanders, d.pidsOf(other.ExecID, 2)...)
		for name, script := range escapes {
			n := 2
			if name == "ignores TERM" {
				n = 1
			}
			grace := map[bool]string{true: "KILL", false: "TERM"}[n == 1 || name == "double fork"]
			x := d.beginDirect(link.ExecParams{}, "sh", "-c", script)
			pids := d.pidsOf(x.ExecID, n)
			if pids[0] != x.PID {
				t.Errorf("%s: process %d, exec.info has %d", name, pids[0], x.PID)
			}
			info, err := d.cancel(api.ExecCancelParams{ExecID: x.ExecID, Signal: grace})
			if err != nil || !info.Outcome.Cancelled || info.Outcome.ExitCode != api.ExitCancelled || len(info.Outcome.LeftRunning) != 0 {
				t.Errorf("%s: %s, %v", name, text(info), err)
			}
			if name == "environment" && t.Name() != "TestBesideKill/cgroup" {
				continue // without a cgroup, such a process ends only with the session
			}
			killed := map[int]bool{}
			for _, k := range info.Outcome.Killed {
				killed[k.PID] = true
			}
			for _, pid := range pids {
				if !killed[pid] {
					t.Errorf("%s: %d was not killed: %s", name, pid, text(info.Outcome.Killed))
				}
			}
			ended(t, name, pids...)
		}
		for _, pid := range bystanders {
			if !alive(pid) {
				t.Errorf("bystander %d was killed", pid)
			}
		}
		// The other way round: the end of the command in the shell spares the program.
		if info, err := d.cancel(api.ExecCancelParams{ExecID: command.ExecID, Signal: "KILL"}); err != nil || len(info.Outcome.Killed) == 0 {
			t.Errorf("%s, %v", text(info), err)
		}
		ended(t, "the command", bystanders[0])
		for _, pid := range bystanders[1:] {
			if !alive(pid) {
				t.Errorf("bystander %d was killed with the command of the shell", pid)
			}
		}
		began := time.Now()
		timeout := 2.0 // enough to start its processes on a busy machine; the grace time follows
		r := d.direct(api.ExecParams{TimeoutS: &timeout}, "sh", "-c", escapes["double fork"]+"; echo never")
		if !r.TimedOut || r.ExitCode != api.ExitTimedOut || r.Signal != "SIGTERM" || len(r.Killed) < 2 || time.Since(began) < 7*time.Second {
			t.Errorf("%s after %s", text(r.ExecOutcome), time.Since(began))
		}
		var res link.DestroyResult
		if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Force: true, Cause: "test"}, nil, &res)); err != nil {
			t.Fatal(err)
		}
		ended(t, "destroy", bystanders...)
		for _, x := range res.Execs {
			if x.State != api.ExecClosed {
				t.Errorf("after destroy: %s", text(x))
			}
		}
		if got := text(res.Killed); !strings.Contains(got, strconv.Itoa(other.PID)) {
			t.Errorf("killed: %s lacks %d", got, other.PID)
		}
	})
}

// TestBesideGroups: the cgroups of ended programs do not gather.
func TestBesideGroups(t *testing.T) {
	d := start(t, api.SessionCreateParams{})
	if d.details().Enforcement != "cgroup" {
		t.Skip("NOT TESTED: no cgroups here")
	}
	cgroup, err := os.ReadFile("/proc/" + strconv.Itoa(d.details().ShellPID) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(string(cgroup), "0::")
	dirs, _ := filepath.Glob("/sys/fs/cgroup" + strings.TrimSpace(path))
	if len(dirs) == 0 {
		dirs, _ = filepath.Glob("/sys/fs/cgroup/unified" + strings.TrimSpace(path))
	}
	if len(dirs) == 0 {
		t.Skip("NOT TESTED: the cgroup of the session is not visible here")
	}
	for range 20 {
		d.direct(api.ExecParams{}, "true")
	}
	left := d.direct(api.ExecParams{}, "sh", "-c", "sleep 300 & echo $!")
	testkit.Eventually(t, "the removal of all groups but one", func() bool {
		subs, _ := filepath.Glob(dirs[0] + "/x-*")
		return len(subs) == 1 && strings.HasSuffix(subs[0], left.ExecID)
	})
}

func TestBesideLeftRunning(t *testing.T) {
	modes(t, func(t *testing.T, d *daemon) {
		gate := filepath.Join(t.TempDir(), "gate")
		if err := syscall.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		r := d.direct(api.ExecParams{}, "sh", "-c", "(read _ <"+gate+"; echo later) & echo $!; sleep 300 >/dev/null 2>&1 &")
		pid, _ := strconv.Atoi(strings.Fields(r.stdout)[0])
		if len(r.LeftRunning) == 0 || r.LeftRunning[0].PID != pid || r.ExitCode != 0 || slices.ContainsFunc(r.LeftRunning, func(p api.Process) bool { return p.Command == "sleep 300" }) {
			t.Errorf("%s", text(r))
		}
		if x := d.info(r.ExecID); x.State != api.ExecExited {
			t.Errorf("%s", text(x))
		}
		if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the end of the output", func() bool { return d.info(r.ExecID).State == api.ExecClosed })
		if _, out, err := d.output(link.OutputParams{ExecID: r.ExecID, Stream: api.EventStdout, Limit: 1000}); err != nil || !strings.HasSuffix(out, "later\n") {
			t.Errorf("%q, %v", out, err)
		}
		// A command of the shell does not take the rest for its own.
		half := 0.2
		if s, err := d.try(api.ExecParams{Command: "sleep 300", TimeoutS: &half}); err != nil || len(s.Killed) != 1 {
			t.Errorf("%s, %v", text(s), err)
		}
		if got := text(d.details().Processes); !strings.Contains(got, "sleep 300") {
			t.Errorf("the process that was left running was killed: %s", got)
		}
	})
}

func TestBesideMerge(t *testing.T) {
	d := start(t, api.SessionCreateParams{})
	want := ""
	for i := range 200 {
		want += fmt.Sprintf("o%d\ne%d\n", i, i)
	}
	const loop = `i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done`
	if r := d.direct(api.ExecParams{Merge: true}, "sh", "-c", loop); r.stdout != want || r.stderr != "" || r.StderrBytes != 0 {
		t.Errorf("%q, %q", r.stdout, r.stderr)
	}
	shells(t, func(t *testing.T, sh string) {
		d := start(t, api.SessionCreateParams{Shell: sh})
		text := loop
		if sh == "fish" {
			text = `for i in (seq 0 199); echo o$i; echo e$i >&2; end`
		}
		for range 2 {
			if r, err := d.try(api.ExecParams{Command: text, Merge: true}); err != nil || r.stdout != want || r.stderr != "" {
				t.Errorf("%q, %q, %v", r.stdout, r.stderr, err)
			}
			if r := d.run("echo out; echo err >&2"); r.stdout != "out\n" || r.stderr != "err\n" {
				t.Errorf("apart again: %q, %q", r.stdout, r.stderr)
			}
		}
		if r, err := d.try(api.ExecParams{Command: "sleep 300 & echo left", Merge: true}); err != nil || r.stdout != "left\n" || len(r.LeftRunning) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestBesideTerminal(t *testing.T) {
	d := start(t, api.SessionCreateParams{Env: map[string]string{"COLUMNS": "9"}})
	size := &api.PTYSize{Cols: 91, Rows: 17}
	r := d.direct(api.ExecParams{Pty: size, Env: map[string]string{"X": "own"}}, "sh", "-c", `tty >/dev/null && stty size; echo $TERM $COLORTERM $X [$TMUX] $COLUMNS; echo err >&2; [ "$(ps -o sid= -p $$)" -eq $$ ] && echo leader`)
	if want := "17 91\r\nxterm-256color truecolor own [] 9\r\nerr\r\nleader\r\n"; r.stdout != want || r.stderr != "" {
		t.Errorf("%q, %q", r.stdout, r.stderr)
	}
	x := d.beginDirect(link.ExecParams{ExecParams: api.ExecParams{Pty: size}}, "bash", "-c", `trap 'stty size' WINCH; echo ready; read a; echo got $a; read b || echo eof; sleep 300 & exec cat`)
	if !x.StdinOpen {
		t.Errorf("%s", text(x))
	}
	d.read(x.ExecID, func(out string) bool { return strings.Contains(out, "ready") })
	who, err := d.await(context.Background(), x.ExecID)
	if err != nil || who == nil || who.PID != x.PID {
		t.Errorf("waits for input: %v, %v", who, err)
	}
	if _, err := d.input(link.InputParams{ExecID: x.ExecID, Pty: &api.PTYSize{Cols: 50, Rows: 5}}, "line\n"); err != nil {
		t.Fatal(err)
	}
	d.read(x.ExecID, func(out string) bool { return strings.Contains(out, "5 50") && strings.Contains(out, "got line") })
	if _, err := d.input(link.InputParams{ExecID: x.ExecID, Close: true}, ""); api.AsError(err) == nil || api.AsError(err).Code != api.CodeInvalidParams {
		t.Errorf("close: %v", err)
	}
	d.write(x.ExecID, "\x04", false)
	d.read(x.ExecID, func(out string) bool { return strings.Contains(out, "eof") })
	d.write(x.ExecID, "\x03", false) // ends cat
	if _, oc := d.read(x.ExecID, nil); oc.Signal != "SIGINT" || oc.ExitCode != 130 || oc.Cancelled {
		t.Errorf("%s", text(oc))
	}
	if _, err := d.input(link.InputParams{ExecID: x.ExecID, Pty: size}, ""); !errors.Is(err, api.ErrConflict) {
		t.Errorf("resize after the end: %v", err)
	}
	plain := d.beginDirect(link.ExecParams{}, "sleep", "300")
	if _, err := d.input(link.InputParams{ExecID: plain.ExecID, Pty: size}, ""); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("resize without a terminal: %v", err)
	}
	shell := d.beginDirect(link.ExecParams{ExecParams: api.ExecParams{Pty: size}}, "bash", "--norc", "-i")
	if x, err := d.cancel(api.ExecCancelParams{ExecID: shell.ExecID}); err != nil || !x.Outcome.Cancelled || x.Outcome.Signal == "SIGKILL" {
		t.Errorf("an interactive shell: %s, %v", text(x), err)
	}
}

func TestBesideSignal(t *testing.T) {
	d := start(t, api.SessionCreateParams{})
	const script = `trap 'echo usr1' USR1; sh -c "trap 'echo child' USR1; echo up; while :; do sleep 0.05; done" & while :; do sleep 0.05; done`
	for _, p := range []api.ExecParams{{Argv: []string{"sh", "-c", script}}, {Command: "sh -c '" + strings.ReplaceAll(script, "'", `'\''`) + "'"}} {
		var x api.ExecInfo
		if p.Argv != nil {
			x = d.beginDirect(link.ExecParams{}, p.Argv...)
		} else {
			x = d.begin(p)
		}
		d.read(x.ExecID, func(out string) bool { return strings.Contains(out, "up") })
		r, err := d.signal(api.ExecSignalParams{ExecID: x.ExecID, Signal: "usr1"})
		if err != nil || r.Signal != "SIGUSR1" || len(r.Processes) != 1 || x.PID != 0 && r.Processes[0].PID != x.PID {
			t.Errorf("%+v, %v", r, err)
		}
		d.read(x.ExecID, func(out string) bool { return strings.Contains(out, "usr1") })
		if r, err := d.signal(api.ExecSignalParams{ExecID: x.ExecID, Signal: "SIGSTOP", To: api.SignalTree}); err != nil || len(r.Processes) < 2 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := d.signal(api.ExecSignalParams{ExecID: x.ExecID, Signal: "18", To: api.SignalTree}); err != nil || r.Signal != "SIGCONT" {
			t.Errorf("%+v, %v", r, err)
		}
		if out, _ := d.read(x.ExecID, func(string) bool { return true }); strings.Contains(out, "child") {
			t.Errorf("the child got the signal of its leader: %q", out)
		}
		if _, err := d.signal(api.ExecSignalParams{ExecID: x.ExecID, Signal: "KILL", To: api.SignalTree}); err != nil {
			t.Error(err)
		}
		if _, oc := d.read(x.ExecID, nil); oc.ExitCode != 137 || oc.Cancelled {
			t.Errorf("%s", text(oc))
		}
		if _, err := d.signal(api.ExecSignalParams{ExecID: x.ExecID, Signal: "KILL"}); !errors.Is(err, api.ErrConflict) {
			t.Errorf("after its end: %v", err)
		}
		if _, err := d.signal(api.ExecSignalParams{ExecID: x.ExecID, Signal: "NOSUCH"}); !errors.Is(err, api.ErrInvalidParams) {
			t.Errorf("no such signal: %v", err)
		}
	}
	if r := d.run("echo $$ alive"); !strings.HasSuffix(r.stdout, "alive\n") || d.details().ShellRestarts != 0 {
		t.Errorf("the shell was signalled: %q", r.stdout)
	}
}

// TestNoShell: a session without a shell runs programs, and refuses the text of commands.
func TestNoShell(t *testing.T) {
	d := launch(t)
	s, err := d.create(api.SessionCreateParams{Shell: api.NoShell, WorkingDir: "/usr"}, "")
	if err != nil || s.Shell != "none" || s.State != api.SessionIdle || s.ShellPID != 0 || s.Kind != api.KindShell || s.WorkingDir != "/usr" || len(s.Processes) != 0 {
		t.Fatalf("%s, %v", text(s), err)
	}
	if _, err := d.try(api.ExecParams{Command: "true"}); !errors.Is(err, api.ErrInvalidParams) || !strings.Contains(err.Error(), "argv") {
		t.Errorf("%v", err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if r := d.direct(api.ExecParams{}, "sh", "-c", "pwd; exit "+strconv.Itoa(i)); r.stdout != "/usr\n" || r.ExitCode != i {
				t.Errorf("%q, %s", r.stdout, text(r.ExecOutcome))
			}
		})
	}
	all.Wait()
	x := d.beginDirect(link.ExecParams{}, "sh", "-c", escapes["double fork"])
	pids := d.pidsOf(x.ExecID, 2)
	var res link.DestroyResult
	if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Force: true, Cause: "test"}, nil, &res)); err != nil || len(res.Killed) < 2 {
		t.Errorf("%s, %v", text(res), err)
	}
	ended(t, "destroy", pids...)
}

// TestBesideNewDaemon: a program outlives its daemon, and the next one reads everything.
func TestBesideNewDaemon(t *testing.T) {
	d := start(t, api.SessionCreateParams{})
	gate := filepath.Join(t.TempDir(), "gate")
	p := link.ExecParams{ExecParams: api.ExecParams{RunID: "once"}}
	script := []string{"sh", "-c", `echo one; while ! [ -e "$1" ]; do sleep 0.02; done; head -c 3000000 /dev/zero | tr '\0' x; echo; echo two`, "sh", gate}
	x := d.beginDirect(p, script...)
	d.read(x.ExecID, func(out string) bool { return out == "one\n" })
	d.leave()
	touch(t, gate)
	d.connect()
	again := d.beginDirect(p, script...)
	if again.ExecID != x.ExecID {
		t.Errorf("%s was started again as %s", x.ExecID, again.ExecID)
	}
	r, err := d.try(api.ExecParams{RunID: "once", Argv: script})
	if err != nil || r.ExecID != x.ExecID || !strings.HasSuffix(r.stdout, "x\ntwo\n") || r.StdoutBytes != 3000009 {
		t.Errorf("%d bytes, %v", len(r.stdout), err)
	}
}

// TestBesidePace: a program waits for the stream that started it, on pipes and on a terminal, and
// the stream gets everything.
func TestBesidePace(t *testing.T) {
	d := start(t, api.SessionCreateParams{})
	for name, p := range map[string]api.ExecParams{
		"pipes":    {Backpressure: new(true)},
		"terminal": {Backpressure: new(true), Pty: &api.PTYSize{Cols: 80, Rows: 24}},
	} {
		id := d.beginDirect(link.ExecParams{ExecParams: p}, "head", "-c", strconv.Itoa(flood), "/dev/zero").ExecID
		stuck(d, id)
		own := &paced{d: d, id: id, reader: id}
		for !own.next() {
			if !own.owner {
				t.Fatalf("%s: the stream that started the program is not its reader", name)
			}
		}
		if own.bytes != flood || own.lost != 0 {
			t.Errorf("%s: read %d bytes of %d, %d are lost", name, own.bytes, flood, own.lost)
		}
		// The reader leaves: the program goes on.
		id = d.beginDirect(link.ExecParams{ExecParams: p}, "head", "-c", strconv.Itoa(flood), "/dev/zero").ExecID
		stuck(d, id)
		release := link.ReadParams{ExecID: id, Reader: id, Release: true}
		if _, err := d.conn.Call(context.Background(), link.ExecRead.With(&release, nil, &link.ReadResult{})); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, name+": the end of the program without its reader", func() bool { return d.info(id).Outcome != nil })
		// A program that waits for its reader can be cancelled.
		id = d.beginDirect(link.ExecParams{ExecParams: p}, "head", "-c", strconv.Itoa(flood), "/dev/zero").ExecID
		stuck(d, id)
		if x, err := d.cancel(api.ExecCancelParams{ExecID: id}); err != nil || !x.Outcome.Cancelled {
			t.Errorf("%s: %s, %v", name, text(x), err)
		}
	}
}

// TestBesideIsUse: a session in which a program runs, or has left a process running, is not idle.
func TestBesideIsUse(t *testing.T) {
	d := launch(t)
	if _, err := d.create(api.SessionCreateParams{Shell: api.NoShell}, ""); err != nil {
		t.Fatal(err)
	}
	idle := func() bool {
		var details link.SessionDetails
		if _, err := d.conn.Call(context.Background(), link.Info.With(&struct{}{}, nil, &details)); err != nil {
			t.Fatal(err)
		}
		return details.IdleMS != nil
	}
	if !idle() {
		t.Error("a new session is in use")
	}
	x := d.beginDirect(link.ExecParams{}, "sleep", "300")
	if idle() {
		t.Error("a session with a running program is idle")
	}
	if _, err := d.cancel(api.ExecCancelParams{ExecID: x.ExecID}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the session is idle again", idle)
	r := d.direct(api.ExecParams{}, "sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!")
	if idle() {
		t.Error("a session with a process that was left running is idle")
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(r.stdout))
	_ = syscall.Kill(pid, syscall.SIGKILL)
	testkit.Eventually(t, "the session is idle at last", idle)
}

// TestBesideLeavesNothing: after many programs the runner has as many descriptors as before.
func TestBesideLeavesNothing(t *testing.T) {
	d := start(t, api.SessionCreateParams{})
	size := &api.PTYSize{Cols: 80, Rows: 24}
	round := func() {
		stdin := "in"
		d.direct(api.ExecParams{Stdin: &stdin}, "cat")
		d.direct(api.ExecParams{Stdin: &stdin, Pty: size}, "true")
		d.direct(api.ExecParams{Merge: true}, "sh", "-c", "sleep 0.01 &")
		_, _ = d.try(api.ExecParams{Argv: []string{"no-such-program"}})
		x := d.beginDirect(link.ExecParams{OpenStdin: true}, "sleep", "300")
		if _, err := d.cancel(api.ExecCancelParams{ExecID: x.ExecID}); err != nil {
			t.Fatal(err)
		}
	}
	round()
	testkit.Eventually(t, "the end of all output", func() bool { return len(d.details().Processes) == 0 })
	before := descriptors(t, d)
	for range 20 {
		round()
	}
	testkit.Eventually(t, "as many descriptors as before", func() bool { return descriptors(t, d) <= before })
}
