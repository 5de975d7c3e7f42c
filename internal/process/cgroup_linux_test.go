package process_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

// newCgroup makes a group for a test, or skips the test if the system does not allow groups.
func newCgroup(t *testing.T) *process.Cgroup {
	t.Helper()
	c, err := process.NewCgroup("test-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Skipf("NO CGROUP TESTED: %v", err)
	}
	t.Cleanup(func() {
		c.Kill()
		c.Remove()
		c.Close()
	})
	return c
}

// A process that neither descent nor environment reveals dies with the group.
func TestCgroupKill(t *testing.T) {
	isolated(t, func(t *testing.T) {
		c := newCgroup(t)
		r := process.NewReaper()
		defer r.Close()
		p := start(t, r, process.Spec{
			Path: "/bin/sh", Args: []string{"sh", "-c", `(setsid env -i /bin/sh -c 'trap "" TERM; echo $$; sleep 300; :' &); sleep 300; :`},
			CgroupFD: c.FD(),
		})
		hidden := p.number(t)
		// There is no subreaper here, so init or another process has adopted it.
		testkit.Eventually(t, "it is an orphan", func() bool { return mustStat(t, hidden).PPID != p.PID })
		if slices.Contains(pidsOf(marked()), hidden) {
			t.Error("it carries the mark")
		}
		if procs := c.Procs(); !slices.Contains(procs, hidden) || !slices.Contains(procs, p.PID) || slices.Contains(procs, os.Getpid()) {
			t.Errorf("in the group are %s", describe(procs))
		}
		h, ok := process.Open(mustStat(t, hidden))
		if !ok {
			t.Fatal("it is gone")
		}
		defer h.Close()

		// Another process, such as the next daemon, kills it by its path.
		again := process.OpenCgroup(c.Path())
		if again == nil {
			t.Fatal("cannot open ", c.Path())
		}
		defer again.Close()
		if err := again.Kill(); err != nil {
			t.Fatal(err)
		}
		if !process.WaitGone([]*process.Handle{h}, time.Now().Add(10*time.Second)) {
			t.Error("it lives on")
		}
		if e := p.wait(t); e.Signal != syscall.SIGKILL {
			t.Errorf("ended with %+v", e)
		}
		if err := again.Remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(c.Path()); !os.IsNotExist(err) {
			t.Errorf("the directory is still there: %v", err)
		}
		// The group no longer exists, which is not an error.
		if err := c.Kill(); err != nil {
			t.Error(err)
		}
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
		if procs := c.Procs(); len(procs) != 0 {
			t.Errorf("processes of a group that is gone: %v", procs)
		}
		if process.OpenCgroup(c.Path()) != nil {
			t.Error("opened a group that is gone")
		}
	})
}

// Groups that the session made within its own are listed, killed and removed with it.
func TestCgroupBelow(t *testing.T) {
	isolated(t, func(t *testing.T) {
		c := newCgroup(t)
		r := process.NewReaper()
		defer r.Close()
		p := start(t, r, process.Spec{
			Path:     "/bin/sh",
			Args:     []string{"sh", "-c", `mkdir -p "$0/a/b" && echo $$ >"$0/a/b/cgroup.procs"; echo ready; read x`, c.Path()},
			CgroupFD: c.FD(),
		})
		p.expect(t, "ready")
		if procs := c.Procs(); !slices.Equal(procs, []int{p.PID}) {
			t.Errorf("in the group are %s", describe(procs))
		}
		// Remove waits for the end of the processes in the group.
		removed := make(chan error, 1)
		go func() { removed <- c.Remove() }()
		io.WriteString(p.in, "end\n")
		if err := <-removed; err != nil {
			t.Error(err)
		}
		p.wait(t)
		if _, err := os.Stat(c.Path()); !os.IsNotExist(err) {
			t.Errorf("the directory is still there: %v", err)
		}
	})
}

func TestCgroupRefuses(t *testing.T) {
	isolated(t, func(t *testing.T) {
		c := newCgroup(t)
		if _, err := process.NewCgroup(filepath.Base(c.Path())); err == nil {
			t.Error("made a group that was there")
		}
		for _, name := range []string{"", ".", "..", "a/b", "a\nb"} {
			if _, err := process.NewCgroup(name); err == nil {
				t.Errorf("%q: was made", name)
			}
		}
		ordinary := filepath.Join(t.TempDir(), "trl-0", "s-1")
		if err := os.MkdirAll(ordinary, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{
			"", "/", ordinary, filepath.Dir(c.Path()), filepath.Dir(filepath.Dir(c.Path())),
			c.Path() + "/", c.Path() + "/.", c.Path() + "/../../x", strings.TrimPrefix(c.Path(), "/"),
		} {
			if process.OpenCgroup(path) != nil {
				t.Errorf("%q: was opened", path)
			}
		}
	})
}

// A nil Cgroup works like a missing group.
func TestNoCgroup(t *testing.T) {
	var c *process.Cgroup
	c.Close()
	if c.FD() > 0 || c.Path() != "" || c.Procs() != nil || c.Remove() != nil || c.Kill() == nil {
		t.Error("a nil group is something")
	}
}

func TestOwnGroups(t *testing.T) {
	const (
		pure   = "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		bound  = `60 1 0:22 /docker/x\040y /mnt/a\040b rw - cgroup2 none rw` + "\n"
		old    = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	)
	for _, c := range []struct{ name, mounts, group, want string }{
		{"a controller: hybrid", hybrid, "4:memory:/m\n1:cpu,cpuacct:/c\n0::/s\n", "/sys/fs/cgroup/cpu/c"},
		{"a controller: v2 only", pure, "0::/s\n", ""},
		{"pure", pure, "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope"},
		{"pure, root", pure, "0::/\n", "/sys/fs/cgroup"},
		{"hybrid", hybrid, "4:memory:/m\n1:cpu:/c\n0::/s\n", "/sys/fs/cgroup/unified/s"},
		{"part of the tree", bound, "0::/docker/x y/in\n", "/mnt/a b/in"},
		{"its top", bound, "0::/docker/x y\n", "/mnt/a b"},
		{"another part", bound, "0::/docker/x yz\n", ""},
		{"outside of the namespace", pure, "0::/../other\n", ""},
		{"two mounts", pure + bound, "0::/docker/x y\n", "/sys/fs/cgroup/docker/x y,/mnt/a b"},
		{"v1 only", old, "1:cpu:/c\n", ""},
		{"v2 is not mounted", old, "0::/x\n", ""},
		{"nonsense", "a b - cgroup2 \n - \n\n", "0::\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			controller := ""
			if strings.HasPrefix(c.name, "a controller") {
				controller = "cpu"
			}
			got := strings.Join(process.OwnGroups([]byte(c.mounts), []byte(c.group), controller), ",")
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzSubGroup(f *testing.F) {
	for text, want := range map[string]string{
		"0::/a/trl-0/s-1/x-1-2\n":                         "x-1-2",
		"9:cpu:/s-1/no\n0::/trl-0/s-1/x-1-3/own/deeper\n": "x-1-3",
		"0::/trl-0/s-1\n":                                 "",
		"0::/trl-0/s-11/x-1-2\n":                          "",
		"":                                                "",
		"0::/trl-0/s-1/x-1-2/s-1/x-9 (deleted)\n8:pids:/\n": "x-1-2",
	} {
		if got := process.SubGroup([]byte(text), "s-1"); got != want {
			f.Errorf("%q: %q, want %q", text, got, want)
		}
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got := process.SubGroup(text, "s-1"); strings.ContainsAny(got, "/\n") {
			t.Errorf("%q: %q", text, got)
		}
	})
}

func FuzzAnySignal(f *testing.F) {
	for name, want := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "sigwinch": syscall.SIGWINCH, "18": syscall.SIGCONT, "0": 0, "-1": 0, "99": 0, "SIGSIGINT": 0, "": 0} {
		if got, ok := process.AnySignal(name); got != want && ok || ok != (want != 0) {
			f.Errorf("%q: %v, %v", name, got, ok)
		}
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if sig, ok := process.AnySignal(name); ok && (sig <= 0 || sig > 64) {
			t.Errorf("%q: %d", name, sig)
		}
	})
}
