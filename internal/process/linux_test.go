//go:build linux

package process_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

const statLine = `4242 (sleep) S 4000 4242 4241 34816 4242 4194304 98 7 0 0 1 2 30 40 20 0 1 0 987654 5677056 257 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0` + "\n"

func TestParseStat(t *testing.T) {
	want := process.Info{PID: 4242, PPID: 4000, PGID: 4242, SID: 4241, StartTime: 987654, State: 'S', UserMS: 310, SystemMS: 420}
	for _, name := range []string{"sleep", "", ")", "(", "a b", ") S 1 1 1 (", "\n", "a)\n(b"} {
		got, threads, ok := process.ParseStat([]byte(strings.Replace(statLine, "sleep", name, 1)))
		want.Name = name
		if !ok || got != want || threads != 1 {
			t.Errorf("%q: got %+v, %d, %v", name, got, threads, ok)
		}
	}
	for _, bad := range []string{"", "1", "1 (", "1 ()", "(x) S", "x (y) S 1", statLine[:60], strings.Replace(statLine, " S ", " SS ", 1), strings.Replace(statLine, "4000", "4x", 1)} {
		if got, _, ok := process.ParseStat([]byte(bad)); ok {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine))
	f.Add([]byte("1 (a) b) R -1 0"))
	f.Add([]byte(strings.Replace(statLine, " 30 ", " -30 ", 1)))
	f.Fuzz(func(t *testing.T, line []byte) {
		i, threads, ok := process.ParseStat(line)
		if !ok {
			if i != (process.Info{}) || threads != 0 {
				t.Errorf("half of a result: %+v", i)
			}
			return
		}
		if i.PID < 0 || i.PPID < 0 || i.PGID < 0 || i.SID < 0 || threads < 0 || i.State == 0 {
			t.Errorf("cannot be: %+v", i)
		}
		if !strings.Contains(string(line), "("+i.Name+")") {
			t.Errorf("the name %q is not in it", i.Name)
		}
	})
}

// Stat returns the names that processes give themselves unchanged.
func TestStatStrangeName(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		dir := t.TempDir()
		for _, name := range []string{"a) S 1 (b", "two\nlines", "(((", ") R 1 1 1"} {
			path := filepath.Join(dir, name)
			if err := os.Symlink("/bin/cat", path); err != nil {
				t.Fatal(err)
			}
			c := start(t, r, process.Spec{Path: path, Args: []string{"cat"}})
			i := mustStat(t, c.PID)
			if i.PID != c.PID || i.PPID != os.Getpid() || strings.ReplaceAll(i.Name, `\n`, "\n") != name {
				t.Errorf("%q: got %+v", name, i)
			}
			c.in.Close()
			c.wait(t)
		}
	})
}

func TestHighWaterRSS(t *testing.T) {
	if got := process.HighWaterRSS(os.Getpid()); got < 1<<20 || got > 10<<30 {
		t.Errorf("got %d", got)
	}
	if got := process.HighWaterRSS(1 << 30); got != 0 {
		t.Errorf("a process that is not there: %d", got)
	}
}

func init() {
	// threads is a subreaper with several threads. It prints which of its children are listed
	// under the main thread: forked by the main thread, forked by another one, adopted.
	helpers["threads"] = func() {
		process.BecomeSubreaper()
		r := process.NewReaper()
		defer r.Close()
		stop := make(chan struct{})
		defer close(stop)
		for range 4 { // other threads exist before and after the fork
			go func() { runtime.LockOSThread(); <-stop }()
		}
		start := func(script string) (*process.Process, *os.File) {
			out, in, err := os.Pipe()
			if err != nil {
				panic(err)
			}
			p, err := r.Start(process.Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Files: []*os.File{os.Stdin, in, os.Stderr}})
			if err != nil {
				panic(err)
			}
			in.Close()
			return p, out
		}
		byMain, _ := start("read x")
		var byOther *process.Process
		adopted := make([]int, 2)
		orphan := func() int {
			p, out := start("sleep 300 >/dev/null & echo $!")
			var pid int
			fmt.Fscan(out, &pid)
			<-p.Done()
			return pid
		}
		adopted[0] = orphan() // its parent was forked by the main thread
		done := make(chan struct{})
		go func() {
			runtime.LockOSThread() // and never unlock, so that this is not the main thread
			byOther, _ = start("read x")
			adopted[1] = orphan() // its parent was forked by another thread
			close(done)
			<-stop
		}()
		<-done
		w := process.WatchChildren(os.Getpid())
		defer w.Close()
		list := w.List(nil)
		all := process.Children(os.Getpid())
		for _, pid := range []int{byMain.PID, byOther.PID, adopted[0], adopted[1]} {
			fmt.Println(slices.Contains(list, pid), slices.Contains(all, pid))
		}
		process.KillTree(os.Getpid(), syscall.SIGKILL, 0, nil)
		<-byMain.Done()
		<-byOther.Done()
	}

	// leaderless is a process whose main thread has ended.
	helpers["leaderless"] = func() {
		go func() {
			runtime.LockOSThread()
			os.Stdout.WriteString("ready\n")
			io.Copy(io.Discard, os.Stdin)
			os.Exit(3)
		}()
		syscall.Syscall(unix.SYS_EXIT, 0, 0, 0)
	}
}

// ChildWatch relies on this: the main thread of a subreaper adopts the orphans.
func TestChildWatchThreads(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := helper(t, r, "threads")
		c.expect(t, "true true")  // forked by the main thread
		c.expect(t, "false true") // forked by another one
		c.expect(t, "true true")  // adopted
		c.expect(t, "true true")
		c.wait(t)
	})
}

func TestChildWatch(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		// Enough children for a list that needs more than one read.
		c := shell(t, r, `echo ready; read x; i=0; while [ $i -lt 150 ]; do sleep 300 & echo $!; i=$((i+1)); done; echo done; read x`)
		c.expect(t, "ready")
		w := process.WatchChildren(c.PID)
		defer w.Close()
		buf := make([]int, 0, 200)
		if got := w.List(buf); len(got) != 0 {
			t.Errorf("got %v", got)
		}
		io.WriteString(c.in, "\n")
		var want []int
		for range 150 {
			want = append(want, c.number(t))
		}
		c.expect(t, "done")
		if got := w.List(buf); !slices.Equal(got, want) {
			t.Errorf("got %d children: %v", len(got), got)
		}
		if n := testing.AllocsPerRun(100, func() { w.List(buf) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		process.KillTree(os.Getpid(), syscall.SIGKILL, 0, nil)
		c.wait(t)
		if got := w.List(buf); len(got) != 0 {
			t.Errorf("a process that is gone has the children %v", got)
		}
		w.Close()
		if got := w.List(buf); len(got) != 0 {
			t.Errorf("a closed list has the children %v", got)
		}
		none := process.WatchChildren(1 << 30)
		if got := none.List(buf); len(got) != 0 {
			t.Errorf("no process has the children %v", got)
		}
		none.Close()
	})
}

// A process lives as long as one of its threads does.
func TestLeaderlessProcess(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := helper(t, r, "leaderless")
		c.expect(t, "ready")
		testkit.Eventually(t, "the main thread has ended", func() bool {
			text, err := os.ReadFile("/proc/" + strconv.Itoa(c.PID) + "/stat")
			return err == nil && strings.Contains(string(text), ") Z ")
		})
		if i := mustStat(t, c.PID); i.Ended() {
			t.Errorf("it counts as ended: %+v", i)
		}
		if got := pidsOf(process.Descendants(os.Getpid(), nil)); !slices.Equal(got, []int{c.PID}) {
			t.Errorf("descendants are %v", got)
		}
		h, ok := process.Open(mustStat(t, c.PID))
		if !ok || process.WaitGone([]*process.Handle{h}, time.Time{}) {
			t.Fatal("it counts as gone")
		}
		defer h.Close()
		if killed := process.KillTree(os.Getpid(), syscall.SIGKILL, 0, nil); len(killed) != 1 {
			t.Errorf("the receipt is %q", lines(killed))
		}
		if e := c.wait(t); e.Signal != syscall.SIGKILL {
			t.Errorf("ended with %+v", e)
		}
	})
}

// The package behaves the same on a kernel that has neither lists of children nor pidfds.
func TestOldKernel(t *testing.T) {
	isolated(t, func(t *testing.T) {
		defer process.WithoutChildrenFiles()()
		defer process.WithoutPidfd()()
		process.BecomeSubreaper()
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, `(setsid sh -c 'trap "" TERM; echo $$; sleep 300; :' &) & wait; read x`)
		orphan := c.number(t)
		testkit.Eventually(t, "the orphan is ours", func() bool { return mustStat(t, orphan).PPID == os.Getpid() })
		var below []int
		testkit.Eventually(t, "the orphan has a child", func() bool { below = process.Children(orphan); return len(below) == 1 })
		want := []int{c.PID, orphan, below[0]}
		slices.Sort(want)
		if got := pidsOf(process.Descendants(os.Getpid(), nil)); !slices.Equal(got, want) {
			t.Errorf("descendants are %s", describe(got))
		}
		w := process.WatchChildren(os.Getpid())
		defer w.Close()
		got := w.List(nil)
		slices.Sort(got)
		if len(got) != 2 || !slices.Contains(got, c.PID) || !slices.Contains(got, orphan) {
			t.Errorf("children are %s", describe(got))
		}
		if got := pidsOf(w.Descendants(nil)); !slices.Equal(got, want) {
			t.Errorf("descendants of the watched one are %s", describe(got))
		}
		killed := process.KillTree(os.Getpid(), syscall.SIGTERM, 100*time.Millisecond, nil)
		if len(killed) != 3 {
			t.Errorf("the receipt is %q", lines(killed))
		}
		if left := marked(); len(left) != 0 {
			t.Errorf("left alive: %s", describe(pidsOf(left)))
		}
		c.wait(t)
		allReaped(t)
	})
}

func TestControllingTerminal(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Skip(err)
		}
		defer ptmx.Close()
		n, err := unix.IoctlGetUint32(int(ptmx.Fd()), unix.TIOCGPTN)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0); err != nil {
			t.Fatal(err)
		}
		tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Start(process.Spec{
			Path: "/bin/sh", Args: []string{"sh", "-c", "echo hello >/dev/tty"},
			Files: []*os.File{tty, tty, tty}, Setsid: true, Setctty: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		got, err := ptmx.Read(buf)
		if string(buf[:got]) != "hello\r\n" {
			t.Errorf("read %q, %v", buf[:got], err)
		}
		<-p.Done()
		tty.Close()
	})
}

// A Ladder gives up a process that even SIGKILL does not end, here because it is frozen.
func TestLadderGivesUp(t *testing.T) {
	isolated(t, func(t *testing.T) {
		group := "/sys/fs/cgroup/freezer/trl-test-" + strconv.Itoa(os.Getpid())
		if err := os.Mkdir(group, 0o755); err != nil {
			t.Skipf("no v1 freezer to hold a process with: %v", err)
		}
		write := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(group, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, "exec cat")
		write("cgroup.procs", strconv.Itoa(c.PID))
		write("freezer.state", "FROZEN")
		l := process.NewLadder(os.Getpid(), syscall.SIGTERM, 0, nil)
		defer l.Close()
		passes := 0
		for ; l.Step() > 0 && !l.GivenUp() && passes < 1000; passes++ {
			l.Wait(time.Millisecond)
		}
		if !l.GivenUp() || passes > 50 || l.Step() != 1 || len(l.Killed()) != 0 {
			t.Errorf("given up: %v, after %d passes; the receipt is %q", l.GivenUp(), passes, lines(l.Killed()))
		}
		write("freezer.state", "THAWED")
		c.wait(t)
		if k := l.Killed(); len(k) != 1 {
			t.Errorf("the receipt is %q", lines(k))
		}
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
}

// TestTurns: a process has further turns only when it runs.
func TestTurns(t *testing.T) {
	if _, _, ok := process.Turns(os.Getpid()); !ok {
		t.Skip("SKIPPED: the kernel does not count turns")
	}
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	var asleep uint64
	testkit.Eventually(t, "cat waits for its input", func() bool {
		before, _, _ := process.Turns(cmd.Process.Pid)
		info, ok := process.Stat(cmd.Process.Pid)
		asleep, _, _ = process.Turns(cmd.Process.Pid)
		return ok && info.Name == "cat" && info.State == 'S' && asleep == before
	})
	if _, err := stdin.Write([]byte("line\n")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "cat has another turn", func() bool {
		turns, used, ok := process.Turns(cmd.Process.Pid)
		return ok && turns > asleep && used > 0
	})
	if _, _, ok := process.Turns(1 << 30); ok {
		t.Error("a process that does not exist has turns")
	}
}
