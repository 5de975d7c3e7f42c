package runner_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/testkit"
)

// open starts a command whose stdin is written later.
func (d *daemon) open(command string, first ...byte) api.ExecInfo {
	d.t.Helper()
	var info api.ExecInfo
	p := link.ExecParams{ExecParams: api.ExecParams{SessionID: d.id, Command: command, Wait: true}, OpenStdin: true}
	if _, err := d.conn.Call(context.Background(), link.ExecStart.With(&p, first, &info)); err != nil {
		d.t.Fatalf("start %q: %v", command, err)
	}
	return info
}

func (d *daemon) input(p link.InputParams, data string) (api.ExecInputResult, error) {
	var res api.ExecInputResult
	_, err := d.conn.Call(context.Background(), link.ExecInput.With(&p, []byte(data), &res))
	return res, err
}

// write must succeed.
func (d *daemon) write(id, data string, end bool) api.ExecInputResult {
	d.t.Helper()
	res, err := d.input(link.InputParams{ExecID: id, Close: end}, data)
	if err != nil {
		d.t.Fatalf("input to %s: %v", id, err)
	}
	return res
}

// conflict must be refused, with these words.
func (d *daemon) conflict(id, words string) {
	d.t.Helper()
	if _, err := d.input(link.InputParams{ExecID: id}, "x"); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), words) {
		d.t.Errorf("input to %s: %v, want %q", id, err, words)
	}
}

func TestInput(t *testing.T) {
	python, _ := exec.LookPath("python3")
	shells(t, func(t *testing.T, sh string) {
		d := start(t, api.SessionCreateParams{Shell: sh})
		two := "(read a; read b; echo $a-$b)"
		if sh == "fish" {
			two = "read a; read b; echo $a-$b"
		}
		for _, c := range []struct {
			command string
			first   string
			writes  []string
			want    string
		}{
			{two, "", []string{"one\n", "two\n"}, "one-two\n"},
			{two, "zero\n", []string{"o", "n", "e", "\n"}, "zero-one\n"},
			{"cat", "first ", []string{"second ", "", "third"}, "first second third"},
			{"cat | tr a-z A-Z | cat", "", []string{"abc\n", "def\n"}, "ABC\nDEF\n"},
			{"head -1", "", []string{"one\n"}, "one\n"},
			{"cat; cat; echo end", "", []string{"x"}, "xend\n"},
			{python + ` -c 'print("hello " + input("name? "))'`, "", []string{"you\n"}, "name? hello you\n"},
			{"cat /dev/stdin", "", []string{"through a name\n"}, "through a name\n"},
			{"true", "ignored", nil, ""},
		} {
			if strings.HasPrefix(c.command, " -c") {
				t.Log("NOT TESTED: python3 is not installed")
				continue
			}
			e := d.open(c.command, []byte(c.first)...)
			if !e.StdinOpen && c.command != "true" { // true reads nothing, and may have ended already
				t.Errorf("%q: stdin is not open", c.command)
			}
			total := int64(len(c.first))
			for _, w := range c.writes {
				total += int64(len(w))
				if res := d.write(e.ExecID, w, false); res.StdinBytes != total || res.Closed || res.Repeated || res.ExecID != e.ExecID {
					t.Errorf("%q: %+v after %d bytes", c.command, res, total)
				}
			}
			if strings.HasPrefix(c.command, "cat") {
				if res := d.write(e.ExecID, "", true); !res.Closed || res.StdinBytes != total {
					t.Errorf("%q: close: %+v", c.command, res)
				}
			}
			out, oc := d.read(e.ExecID, nil)
			if out != c.want || oc.ExitCode != 0 || len(oc.LeftRunning) != 0 {
				t.Errorf("%q: %q, %+v, want %q", c.command, out, oc, c.want)
			}
			d.conflict(e.ExecID, "has ended (exit code 0)")
			if res := d.write(e.ExecID, "", true); !res.Closed || res.StdinBytes != total {
				t.Errorf("%q: close after its end: %+v", c.command, res)
			}
			if in := d.info(e.ExecID); in.StdinOpen {
				t.Errorf("%q: stdin is open after its end", c.command)
			}
		}
		if r := d.run("echo after"); r.stdout != "after\n" {
			t.Errorf("the next command: %q", r.stdout)
		}
	})
}

// TestInputLarge: many writes, more than may wait at once, arrive byte for byte, and
// the session answers meanwhile.
func TestInputLarge(t *testing.T) {
	shells(t, func(t *testing.T, sh string) {
		d := start(t, api.SessionCreateParams{Shell: sh})
		data := make([]byte, 20<<20)
		rand.NewChaCha8([32]byte{}).Read(data)
		e := d.open("sh -c 'while [ ! -e " + d.dir + "/go ]; do sleep 0.01; done; exec sha256sum'")
		refused := 0
		for rest := data; len(rest) > 0; {
			n := min(1+rand.IntN(300_000), len(rest))
			_, err := d.input(link.InputParams{ExecID: e.ExecID, WriteID: fmt.Sprint(len(rest)), Close: n == len(rest)}, string(rest[:n]))
			switch {
			case err == nil:
				rest = rest[n:]
			case api.AsError(err).Code == api.CodeResourcePressure && strings.Contains(err.Error(), "bytes of input are waiting"):
				refused++
				touch(t, d.dir+"/go")
				d.info(e.ExecID)
			default:
				t.Fatal(err)
			}
		}
		out, oc := d.read(e.ExecID, nil)
		if want := fmt.Sprintf("%x", sha256.Sum256(data)); !strings.HasPrefix(out, want) || oc.ExitCode != 0 {
			t.Errorf("%q, %+v, want %s", out, oc, want)
		}
		if refused == 0 {
			t.Error("20 MB were taken though 16 MB may wait")
		}
	})
}

func TestInputRepeated(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	e := d.open("cat; while [ ! -e " + d.dir + "/go ]; do sleep 0.01; done")
	for i := range 3 {
		res, err := d.input(link.InputParams{ExecID: e.ExecID, WriteID: "a"}, "once ")
		if err != nil || res.Repeated != (i > 0) || res.StdinBytes != 5 {
			t.Errorf("%d: %+v, %v", i, res, err)
		}
	}
	for i := range 1024 { // the last 1024 are remembered
		if _, err := d.input(link.InputParams{ExecID: e.ExecID, WriteID: fmt.Sprint(i)}, "."); err != nil {
			t.Fatal(err)
		}
	}
	if res, err := d.input(link.InputParams{ExecID: e.ExecID, WriteID: "0"}, "."); err != nil || !res.Repeated || res.StdinBytes != 6 {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := d.input(link.InputParams{ExecID: e.ExecID, WriteID: "a"}, "again"); err != nil || res.Repeated {
		t.Errorf("an id that is too old: %+v, %v", res, err)
	}
	if _, err := d.input(link.InputParams{ExecID: e.ExecID, WriteID: "end", Close: true}, "!"); err != nil {
		t.Fatal(err)
	}
	d.conflict(e.ExecID, "its input is already closed")
	touch(t, d.dir+"/go")
	out, _ := d.read(e.ExecID, nil)
	if want := "once " + strings.Repeat(".", 1024) + "again!"; out != want {
		t.Errorf("%d bytes, want %d", len(out), len(want))
	}
	// A retry of the last write finds its answer even when the command has ended.
	if res, err := d.input(link.InputParams{ExecID: e.ExecID, WriteID: "end", Close: true}, "!"); err != nil || !res.Repeated || !res.Closed {
		t.Errorf("%+v, %v", res, err)
	}
	d.conflict(e.ExecID, "has ended (exit code 0)")
}

func TestInputRefused(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	if _, err := d.input(link.InputParams{ExecID: "x-1"}, "x"); !errors.Is(err, api.ErrExecNotFound) {
		t.Errorf("an unknown exec: %v", err)
	}
	plain := d.begin(api.ExecParams{Command: "echo up; sleep 100"})
	d.conflict(plain.ExecID, `set "stdin_open": true in exec.start`)
	// Input for a command that waits for its turn is kept for it.
	queued, given := d.open("read a; read b; echo $a-$b"), d.open("cat")
	d.write(queued.ExecID, "one\n", false)
	d.write(given.ExecID, "never read", false)
	if res := d.write(queued.ExecID, "two\n", true); res.StdinBytes != 8 {
		t.Errorf("%+v", res)
	}
	d.conflict(queued.ExecID, "already closed")
	if _, err := d.cancel(api.ExecCancelParams{ExecID: given.ExecID}); err != nil {
		t.Fatal(err)
	}
	d.conflict(given.ExecID, "has ended (exit code 130)")
	if _, err := d.cancel(api.ExecCancelParams{ExecID: plain.ExecID}); err != nil {
		t.Fatal(err)
	}
	d.conflict(plain.ExecID, "has ended (exit code 130)")
	if out, _ := d.read(queued.ExecID, nil); out != "one-two\n" {
		t.Errorf("%q", out)
	}
	// Too much at once, and too much in total.
	full := d.open("echo up; sleep 100")
	d.read(full.ExecID, running)
	if _, err := d.input(link.InputParams{ExecID: full.ExecID}, strings.Repeat("x", int(limits.MaxStdinBytes)+1)); api.AsError(err).Code != api.CodeRequestTooLarge {
		t.Errorf("%v", err)
	}
	for range 3 {
		if _, err := d.input(link.InputParams{ExecID: full.ExecID, WriteID: "w"}, strings.Repeat("x", int(limits.MaxStdinBytes))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.input(link.InputParams{ExecID: full.ExecID}, strings.Repeat("x", 1<<20)); api.AsError(err).Code != api.CodeResourcePressure {
		t.Errorf("%v", err)
	}
	if info, err := d.cancel(api.ExecCancelParams{ExecID: full.ExecID}); err != nil || !info.Outcome.Cancelled || info.Outcome.ShellRestarted {
		t.Errorf("%+v, %v", info, err)
	}
	// An exec that cannot be run at all.
	p := link.ExecParams{ExecParams: api.ExecParams{SessionID: d.id, Command: "cat", WorkingDir: "/nope", Wait: true}, OpenStdin: true}
	var bad api.ExecInfo
	if _, err := d.conn.Call(context.Background(), link.ExecStart.With(&p, []byte("x"), &bad)); err != nil {
		t.Fatal(err)
	}
	var res link.ReadResult
	if _, err := d.conn.Call(context.Background(), link.ExecRead.With(&link.ReadParams{ExecID: bad.ExecID, Wait: true}, nil, &res)); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("%+v, %v", res, err)
	}
	d.conflict(bad.ExecID, "could not be run: ")
}

// TestInputUnread: a command may close its stdin, leave it unread, die or be killed:
// nothing hangs, nothing is left behind.
func TestInputUnread(t *testing.T) {
	shells(t, func(t *testing.T, sh string) {
		d := start(t, api.SessionCreateParams{Shell: sh})
		d.run("true")
		before := descriptors(t, d)
		megabyte := bytes.Repeat([]byte("y"), 1<<20)
		for range 3 {
			if sh != "fish" {
				e := d.open("exec <&-; echo up; sleep 100", megabyte...)
				d.read(e.ExecID, running)
				for d.info(e.ExecID).StdinOpen { // until the kernel has notified the runner
				}
				d.conflict(e.ExecID, "its stdin is closed")
				if _, err := d.cancel(api.ExecCancelParams{ExecID: e.ExecID}); err != nil {
					t.Fatal(err)
				}
			}
			for _, command := range []string{"true", "head -c 1 >/dev/null", "exec true", "kill -9 $$", "sh -c 'kill -9 $$'", "cat </dev/null"} {
				if sh == "fish" {
					command = strings.Replace(command, "kill -9 $$", "kill -9 $fish_pid", 1)
				}
				e := d.open(command, megabyte...)
				if _, oc := d.read(e.ExecID, nil); oc == nil {
					t.Errorf("%q: no outcome", command)
				}
			}
			e := d.open("echo up; sleep 100", megabyte...)
			d.read(e.ExecID, running)
			if info, err := d.cancel(api.ExecCancelParams{ExecID: e.ExecID, Signal: "KILL"}); err != nil || !info.Outcome.Cancelled {
				t.Errorf("%+v, %v", info, err)
			}
			d.conflict(e.ExecID, "has ended (exit code 130)")
		}
		if r := d.run("echo after"); r.stdout != "after\n" {
			t.Errorf("the next command: %q", r.stdout)
		}
		testkit.EventuallyNoProblem(t, func() string {
			if n := descriptors(t, d); n > before {
				return fmt.Sprintf("%d descriptors, before %d", n, before)
			}
			return ""
		})
	})
}

// descriptors counts what the runner has open.
func descriptors(t *testing.T, d *daemon) int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	return len(list)
}

// TestInputBackground: what a command leaves in the background gets what was written
// before its end, and then the end.
func TestInputBackground(t *testing.T) {
	shells(t, func(t *testing.T, sh string) {
		if sh == "fish" {
			t.Skip("NOT TESTED: fish has no descriptors of its own making")
		}
		d := start(t, api.SessionCreateParams{Shell: sh})
		e := d.open("exec 3<&0; { while [ ! -e "+d.dir+"/go ]; do sleep 0.01; done; cat <&3; } >"+d.dir+"/got & exec 3<&-", bytes.Repeat([]byte("z"), 300_000)...)
		_, oc := d.read(e.ExecID, nil)
		if len(oc.LeftRunning) == 0 {
			t.Fatalf("%+v", oc)
		}
		d.conflict(e.ExecID, "has ended (exit code 0)")
		touch(t, d.dir+"/go")
		d.run("wait")
		got, err := os.ReadFile(d.dir + "/got")
		if err != nil || len(got) != 300_000 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// TestInputNewDaemon: the pipe belongs to the runner.
func TestInputNewDaemon(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	e := d.open("echo up; cat")
	d.read(e.ExecID, running)
	if res, err := d.input(link.InputParams{ExecID: e.ExecID, WriteID: "1"}, "before "); err != nil || res.StdinBytes != 7 {
		t.Fatalf("%+v, %v", res, err)
	}
	d.conn.Close()
	<-d.done
	d.connect()
	if res, err := d.input(link.InputParams{ExecID: e.ExecID, WriteID: "1"}, "before "); err != nil || !res.Repeated {
		t.Errorf("%+v, %v", res, err)
	}
	d.write(e.ExecID, "after", true)
	if out, _ := d.read(e.ExecID, nil); out != "up\nbefore after" {
		t.Errorf("%q", out)
	}
}
