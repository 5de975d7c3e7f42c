package process_test

import (
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

func TestStatSelf(t *testing.T) {
	i := mustStat(t, os.Getpid())
	sid, err := unix.Getsid(0) // 0 where the leader is outside our PID namespace
	if err != nil {
		t.Fatal(err)
	}
	if i.PID != os.Getpid() || i.PPID != os.Getppid() || i.PGID != syscall.Getpgrp() || i.SID != sid || i.StartTime == 0 || i.Ended() {
		t.Errorf("got %+v", i)
	}
	if want := "process.test"; i.Name != want {
		t.Errorf("the name is %q, not %q", i.Name, want)
	}
	if _, ok := process.Stat(1 << 30); ok {
		t.Error("found a process that cannot be")
	}
	if first, second := process.BootID(), process.BootID(); first == "" || first != second {
		t.Errorf("boot ids %q and %q", first, second)
	}
}

// The time of a process includes that of the children it has waited for.
func TestStatUsage(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, `(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done); echo done; read x`)
		c.expect(t, "done")
		if i := mustStat(t, c.PID); i.UserMS+i.SystemMS < 20 || i.UserMS+i.SystemMS > 60000 {
			t.Errorf("the loop took %d+%d ms", i.UserMS, i.SystemMS)
		}
		c.in.Close()
		if e := c.wait(t); e.UserMS+e.SystemMS < 20 {
			t.Errorf("the loop took %d+%d ms", e.UserMS, e.SystemMS)
		}
	})
}

func TestSelfUsage(t *testing.T) {
	rss, before := process.SelfUsage()
	if rss < 1<<20 || rss > 10<<30 {
		t.Errorf("resident are %d bytes", rss)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, after := process.SelfUsage(); after != before+2 {
		t.Errorf("%d descriptors, then %d with a pipe", before, after)
	}
}

func TestCommandLine(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ raw, want string }{
		{"sleep\x00300\x00", "sleep 300"},
		{"a b\x00c\x00\x00", "a b c"},
		{"sh\x00-c\x00\x00x\x00", "sh -c  x"},
		{"printf\x00a\nb\x1b[31m\x7f\u0085\xff\x00", "printf a?b?[31m???"},
		{"größe", "größe"},
		{long[:256], long[:256]},
		{long, long[:253] + "..."},
		{long[:252] + "ß" + long, long[:252] + "..."},
		{long[:251] + "ß" + long, long[:251] + "ß..."},
	} {
		if got := process.CommandText(c.raw); got != c.want {
			t.Errorf("%q: got %q, want %q", c.raw, got, c.want)
		}
	}
	if got := process.CommandLine(1 << 30); got != "" {
		t.Errorf("a process that is not there: %q", got)
	}
	if got := process.CommandLine(os.Getpid()); !strings.HasPrefix(got, os.Args[0]) {
		t.Errorf("got %q", got)
	}
}

func TestDescendants(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, `sh -c 'sleep 300 & echo $!; echo $$; wait' & echo $!; wait`)
		pids := []int{c.PID, c.number(t), c.number(t), c.number(t)}
		slices.Sort(pids)
		pids = slices.Compact(pids) // the middle one was named twice
		if len(pids) != 3 {
			t.Fatal(pids)
		}
		live := process.Descendants(os.Getpid(), nil)
		if got := pidsOf(live); !slices.Equal(got, pids) {
			t.Fatalf("got %s, want %v", describe(got), pids)
		}
		for i := 1; i < len(live); i++ {
			if live[i].PPID != live[i-1].PID {
				t.Errorf("children before parents: %+v", live)
			}
		}
		middle := live[1]
		if got := process.Children(c.PID); !slices.Equal(got, []int{middle.PID}) {
			t.Errorf("children are %v", got)
		}
		w := process.WatchChildren(c.PID)
		defer w.Close()
		if got := w.Descendants(nil); !slices.EqualFunc(got, live[1:], func(a, b process.Info) bool { return a.PID == b.PID }) {
			t.Errorf("below the watched one: %+v", got)
		}
		if got := w.Descendants(func(i process.Info) bool { return i.PPID == middle.PID }); !slices.Equal(pidsOf(got), []int{middle.PID}) {
			t.Errorf("below the watched one, without its grandchildren: %+v", got)
		}
		spared := process.Descendants(os.Getpid(), func(i process.Info) bool { return i.PID == middle.PID })
		if got := pidsOf(spared); !slices.Equal(got, []int{c.PID}) {
			t.Errorf("got %s", describe(got))
		}
		if got := process.Descendants(1<<30, nil); len(got) != 0 {
			t.Errorf("below nothing: %+v", got)
		}
		process.KillTree(os.Getpid(), syscall.SIGKILL, 0, nil)
		allReaped(t)
	})
}

func TestHandle(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, "exec cat")
		info := mustStat(t, c.PID)

		reused := info
		reused.StartTime-- // another process once had this id
		if _, ok := process.Open(reused); ok {
			t.Error("took hold of the wrong process")
		}
		h, ok := process.Open(info)
		if !ok {
			t.Fatal("cannot take hold of the process")
		}
		defer h.Close()
		if h.PID() != c.PID {
			t.Errorf("holds %d", h.PID())
		}
		hs := []*process.Handle{h}
		if process.WaitGone(hs, time.Time{}) || process.WaitGone(hs, time.Now().Add(15*time.Millisecond)) {
			t.Error("it is not gone")
		}
		if err := h.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if !process.WaitGone(hs, time.Now().Add(10*time.Second)) {
			t.Error("it does not end")
		}
		c.wait(t)
		if err := h.Signal(syscall.SIGTERM); err != os.ErrProcessDone {
			t.Errorf("a signal after the end: %v", err)
		}
		if _, ok := process.Open(info); ok {
			t.Error("took hold of a process that is gone")
		}
	})
}

func TestMarked(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		// The mark is the last entry of a large environment. The text at the beginning of a
		// block of 4096 bytes looks like the mark, but is the end of another entry.
		env := []string{"F=" + strings.Repeat("x", 4094) + "TAIL=1"}
		for range 10 {
			env = append(env, "FILL="+strings.Repeat(envMark+"="+mark(), 5000))
		}
		c := start(t, r, process.Spec{Path: "/bin/cat", Args: []string{"cat"}, Env: append(env, "X="+envMark+"="+mark()+"0")})
		info := mustStat(t, c.PID)
		for _, w := range []struct {
			key, value string
			since      uint64
			found      bool
		}{
			{envMark, mark(), 0, true},
			{envMark, mark(), info.StartTime, true},
			{envMark, mark(), info.StartTime + 1, false},
			{envMark, mark() + "0", info.StartTime, false},
			{envMark, mark()[:len(mark())-1], info.StartTime, false},
			{envMark[1:], mark(), info.StartTime, false},
			{"TAIL", "1", info.StartTime, false},
			{"X", envMark + "=" + mark() + "0", info.StartTime, true},
		} {
			got := pidsOf(process.Marked(w.key, w.value, w.since))
			if slices.Contains(got, c.PID) != w.found {
				t.Errorf("%+v: found %v", w, got)
			}
		}
		// Only the process that has the id now counts, and a zombie does not.
		io.WriteString(c.in, "x")
		c.in.Close()
		c.wait(t)
		if got := marked(); len(got) != 0 {
			t.Errorf("still found: %+v", got)
		}
	})
}

func TestParseProcArgs(t *testing.T) {
	argc := func(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }
	for _, c := range []struct{ raw, args, env string }{
		{argc(2) + "/bin/sleep\x00\x00\x00\x00sleep\x00300\x00A=1\x00B=2\x00\x00ptr=x\x00", "sleep\x00300\x00", "A=1\x00B=2\x00"},
		{argc(1) + "/bin/cat\x00cat\x00", "cat\x00", ""},
		{argc(1) + "/bin/cat\x00cat\x00A=1\x00", "cat\x00", "A=1\x00"},
		{argc(9) + "/bin/cat\x00cat\x00cut", "cat\x00cut", ""},
		{argc(1) + "/bin/cat", "", ""},
		{argc(4000000000) + "/bin/cat\x00", "", ""},
		{"ab", "", ""},
		{"", "", ""},
	} {
		args, env := process.ParseProcArgs([]byte(c.raw))
		if string(args) != c.args || string(env) != c.env {
			t.Errorf("%q: got %q and %q", c.raw, args, env)
		}
	}
}
