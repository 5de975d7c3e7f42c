package runner_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
)

func (d *daemon) await(ctx context.Context, id string) (*api.Process, error) {
	var res link.AwaitResult
	_, err := d.conn.Call(ctx, link.ExecAwait.With(&api.ExecInfoParams{ExecID: id}, nil, &res))
	return res.Process, err
}

// seeing skips a test where the kernel does not tell what a process waits for.
func seeing(t *testing.T) {
	t.Helper()
	if process.CanSeeReads(os.Getpid()) != nil {
		t.Skip("NOT TESTED: this system does not tell what a process waits for")
	}
}

func TestAwait(t *testing.T) {
	seeing(t)
	shells(t, func(t *testing.T, sh string) {
		d := start(t, api.SessionCreateParams{Shell: sh})
		for _, c := range []struct {
			needs   string // a program
			command string
			who     string // part of the command line of the process that waits
			input   string // that makes it end
			want    string
		}{
			{"", "read x; echo $x", sh, "one\n", "one\n"},
			{"", "sh -c 'read x; echo $x'", "sh -c", "one\n", "one\n"},
			{"", "cat", "cat", "", ""},
			{"", "head -1", "head -1", "one\n", "one\n"},
			{"", "cat | grep x", "cat", "yx\n", "yx\n"},
			{"", "sleep 0.2; echo prompt; cat", "cat", "", "prompt\n"},
			{"bash", `bash -c 'read -p "name? " n; echo "$n"'`, "bash -c", "one\n", "one\n"},
			{"bash", `bash -c 'read -t 1000 n; echo "$n"'`, "bash -c", "one\n", "one\n"},
			{"python3", `python3 -c 'print(input("name? "))'`, "input(", "one\n", "name? one\n"},
			{"python3", `python3 -c 'import sys, selectors; s = selectors.DefaultSelector(); s.register(sys.stdin, 1); s.select(); print(sys.stdin.read())'`, "selectors", "one", "one\n"},
			{"python3", `python3 -c 'import sys, select; select.select([sys.stdin], [], []); print(sys.stdin.read())'`, "select", "one", "one\n"},
			{"python3", `python3 -c 'import sys, threading; t = threading.Thread(target=lambda: print(input())); t.start(); t.join()'`, "threading", "one\n", "one\n"},
			{"node", `node -e 'process.stdin.on("data", d => process.stdout.write(d))'`, "node", "one", "one"},
			{"perl", `perl -e 'print scalar <STDIN>'`, "perl", "one\n", "one\n"},
			{"script", `script -qec 'head -1' /dev/null`, "", "one\n", "one\r\none\r\n"}, // with the terminal's echo
		} {
			if c.needs != "" && sh != "dash" && sh != "fish" {
				continue // to a program it is all one which shell started it
			}
			if _, err := exec.LookPath(c.needs); c.needs != "" && err != nil {
				t.Logf("NOT TESTED: %s is not installed", c.needs)
				continue
			}
			if applets(sh) {
				c.who = "" // a fork of the shell
			}
			e := d.open(c.command)
			p, err := d.await(t.Context(), e.ExecID)
			if err != nil || p == nil || !strings.Contains(p.Command, c.who) {
				t.Fatalf("%q: %+v, %v; %+v", c.command, p, err, d.info(e.ExecID))
			}
			d.write(e.ExecID, c.input, true)
			if out, oc := d.read(e.ExecID, nil); out != c.want || oc.ExitCode != 0 {
				t.Errorf("%q: %q, %+v", c.command, out, oc)
			}
			if p, err := d.await(t.Context(), e.ExecID); err != nil || p != nil {
				t.Errorf("%q: after its end: %+v, %v", c.command, p, err)
			}
		}
	})
}

// TestAwaitAgain: after each line the program waits again, and is seen to.
func TestAwaitAgain(t *testing.T) {
	seeing(t)
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	e := d.open(`while read x; do echo "got $x"; done`)
	for range 10 {
		if p, err := d.await(t.Context(), e.ExecID); err != nil || p == nil || p.PID != d.details().ShellPID {
			t.Fatalf("%+v, %v", p, err)
		}
		d.write(e.ExecID, "line\n", false)
	}
	d.write(e.ExecID, "", true)
	if p, err := d.await(t.Context(), e.ExecID); err != nil || p != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if out, _ := d.read(e.ExecID, nil); strings.Count(out, "got line\n") != 10 {
		t.Errorf("%q", out)
	}
}

// TestAwaitNoFalseAlarm: a process that does something else with an open stdin does not wait for input.
func TestAwaitNoFalseAlarm(t *testing.T) {
	seeing(t)
	long := 250 * time.Millisecond // enough for many looks; how many there are decides nothing
	if testing.Short() {
		long = 100 * time.Millisecond
	}
	shells(t, func(t *testing.T, sh string) {
		t.Parallel() // each has a runner process of its own
		d := start(t, api.SessionCreateParams{Shell: sh})
		d.run("mkfifo " + d.dir + "/other")
		commands := []string{
			"echo up; sleep 100",                         // sleeps
			"echo up; sh -c 'sleep 100; :'",              // a child is waited for
			"echo up; sleep 100 | cat",                   // cat reads another pipe
			"echo up; sh -c 'cat <>" + d.dir + "/other'", // another file
			"echo up; cat </dev/null; sleep 100",
		}
		if sh == "fish" {
			commands = append(commands, "echo up; while true; end")
		} else {
			commands = append(commands, "echo up; while :; do :; done", "sleep 100 & echo up; wait", "echo up; read x <>"+d.dir+"/other")
		}
		if _, err := exec.LookPath("python3"); err != nil {
			t.Log("NOT TESTED: python3 is not installed")
		} else { // looks for input now and then, and has other things to do
			commands = append(commands, `python3 -c '
import select, time
print("up", flush=True)
while True:
    select.select([0], [], [], 0.002)
    until = time.monotonic() + 0.003
    while time.monotonic() < until: pass
'`)
		}
		for _, command := range commands {
			e := d.open(command)
			d.read(e.ExecID, running)
			ctx, cancel := context.WithTimeout(t.Context(), long)
			if p, err := d.await(ctx, e.ExecID); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q: %+v, %v", command, p, err)
			}
			cancel()
			if _, err := d.cancel(api.ExecCancelParams{ExecID: e.ExecID, Signal: "KILL"}); err != nil {
				t.Fatal(err)
			}
		}
		// What is not read yet must be read first.
		e := d.open("echo up; sleep 100", []byte("unread")...)
		d.read(e.ExecID, running)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if p, err := d.await(ctx, e.ExecID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// TestAwaitEnds: a waiting caller gets the end, in every way in which a command ends.
func TestAwaitEnds(t *testing.T) {
	seeing(t)
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	if _, err := d.await(t.Context(), "x-1"); !errors.Is(err, api.ErrExecNotFound) {
		t.Errorf("%v", err)
	}
	first := d.begin(api.ExecParams{Command: "echo up; while [ ! -e " + d.dir + "/go ]; do sleep 0.01; done"})
	d.read(first.ExecID, running)
	queued, given := d.open("read x; echo $x"), d.open("cat")
	got := make(chan *api.Process)
	for _, id := range []string{first.ExecID, queued.ExecID, given.ExecID} {
		go func() {
			p, err := d.await(t.Context(), id)
			if err != nil {
				t.Error(err)
			}
			got <- p
		}()
	}
	if _, err := d.cancel(api.ExecCancelParams{ExecID: given.ExecID}); err != nil {
		t.Fatal(err)
	}
	if p := <-got; p != nil {
		t.Errorf("given up in the queue: %+v", p)
	}
	touch(t, d.dir+"/go")
	a, b := <-got, <-got
	if a != nil || b == nil || b.PID != d.details().ShellPID {
		t.Errorf("%+v, %+v", a, b)
	}
	d.write(queued.ExecID, "x\n", false)
	if out, _ := d.read(queued.ExecID, nil); out != "x\n" {
		t.Errorf("%q", out)
	}
}

// TestAwaitUnseen: where the system does not tell, that is the answer.
func TestAwaitUnseen(t *testing.T) {
	if runtime.GOOS == "linux" {
		t.Skip("NOT TESTED: this system tells")
	}
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	e := d.open("cat")
	if _, err := d.await(t.Context(), e.ExecID); !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("%v", err)
	}
}
