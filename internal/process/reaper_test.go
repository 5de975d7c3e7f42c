package process_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		script string
		want   process.Exit
		code   int
	}{
		{"exit 0", process.Exit{}, 0},
		{"exit 3", process.Exit{Status: 3}, 3},
		{"kill -TERM $$", process.Exit{Signal: syscall.SIGTERM}, 143},
		{"kill -KILL $$", process.Exit{Signal: syscall.SIGKILL}, 137},
	} {
		t.Run(strings.ReplaceAll(c.script, " ", "_"), func(t *testing.T) {
			isolated(t, func(t *testing.T) {
				r := process.NewReaper()
				defer r.Close()
				e := shell(t, r, c.script).wait(t)
				if e.Status != c.want.Status || e.Signal != c.want.Signal || e.Code() != c.code {
					t.Errorf("got %+v, code %d", e, e.Code())
				}
				if e.MaxRSSBytes < 100<<10 || e.MaxRSSBytes > 1<<30 {
					t.Errorf("max rss is %d bytes", e.MaxRSSBytes)
				}
			})
		})
	}
}

// Each child reports its own status, however quickly it ends, and no zombie remains.
func TestReaperQuickChildren(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		const workers, each = 5, 100
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				for i := range each {
					want := (w*each + i) % 200
					p, err := r.Start(process.Spec{
						Path:  "/bin/sh",
						Args:  []string{"sh", "-c", "exit " + strconv.Itoa(want)},
						Files: []*os.File{null, null, null},
					})
					if err != nil {
						t.Error(err)
						return
					}
					if i%2 == 0 {
						<-p.Done() // the other half ends while the next ones start
						if got := p.Exit().Code(); got != want {
							t.Errorf("child ended with %d, want %d", got, want)
						}
					}
				}
			})
		}
		group.Wait()
		allReaped(t)
	})
}

func TestReaperOrphans(t *testing.T) {
	isolated(t, func(t *testing.T) {
		if !process.BecomeSubreaper() {
			t.Skip("no subreaper on this system")
		}
		r := process.NewReaper()
		defer r.Close()
		type end struct {
			pid  int
			exit process.Exit
		}
		ends := make(chan end, 10)
		r.OnOrphan(func(pid int, e process.Exit) { ends <- end{pid, e} })
		// The middle process ends at once, the grandchild when the test signals it.
		c := shell(t, r, `(setsid sh -c 'echo $$; read x; exit 7' <&3 & ) 3<&0; echo over`)
		var pid int
		for range 2 { // the order of the two lines is not fixed
			line, err := c.out.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				pid = n
			}
		}
		c.wait(t)
		testkit.Eventually(t, "the orphan is ours", func() bool { return mustStat(t, pid).PPID == os.Getpid() })
		io.WriteString(c.in, "end\n")
		if e := <-ends; e.pid != pid || e.exit.Code() != 7 {
			t.Errorf("got %+v, want %d with 7", e, pid)
		}
		allReaped(t)
	})
}

func TestProcessSignal(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		c := shell(t, r, "exec cat")
		if err := c.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if e := c.wait(t); e.Signal != syscall.SIGTERM {
			t.Errorf("got %+v", e)
		}
		if err := c.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("signal after the end: %v", err)
		}
	})
}

func TestStartAttributes(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		c := start(t, r, process.Spec{
			Path: "/bin/sh", Args: []string{"name", "-c", `pwd; echo "$0 $1 $A"; read x`, "zero", "one"},
			Env: []string{"A=b"}, Dir: dir, Setsid: true,
		})
		c.expect(t, dir)
		c.expect(t, "zero one b")
		if i := mustStat(t, c.PID); i.SID != c.PID || i.PGID != c.PID || i.PPID != os.Getpid() {
			t.Errorf("not the leader of a session: %+v", i)
		}
		c.in.Close()
		c.wait(t)
	})
}

func TestStartErrors(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte("not a program\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			spec process.Spec
			want string
		}{
			{process.Spec{Path: "/nowhere/sh"}, "start /nowhere/sh: no such file or directory"},
			{process.Spec{Path: file}, "start " + file + ": permission denied"},
			{process.Spec{Path: "/bin/sh", Dir: "/nowhere"}, "chdir /nowhere: no such file or directory"},
			{process.Spec{Path: "/bin/sh", Dir: file}, "chdir " + file + ": not a directory"},
			{process.Spec{Path: "/nowhere/sh", Dir: "/"}, "start /nowhere/sh: no such file or directory"},
			{process.Spec{Path: "/bin/sh", Files: []*os.File{nil}}, "start /bin/sh: file 0 is nil"},
		} {
			c.spec.Args = []string{"sh"}
			if _, err := r.Start(c.spec); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		}
		r.Close()
		r.Close()
		if _, err := r.Start(process.Spec{Path: "/bin/sh", Args: []string{"sh"}}); err == nil {
			t.Error("a closed reaper starts processes")
		}
	})
}

func init() {
	helpers["sanitized"] = func() {
		process.Sanitize()
		r := process.NewReaper()
		defer r.Close()
		p, err := r.Start(process.Spec{
			Path: "/bin/sh", Args: []string{"sh", "-c", "trap 'echo hup' HUP; trap 'echo int' INT; kill -HUP $$; kill -INT $$; (: <&9) 2>/dev/null || echo no 9"},
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		})
		if err != nil {
			panic(err)
		}
		<-p.Done()
	}
}

// Ignored signals and descriptors that a process has inherited do not reach its children.
func TestSanitize(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `trap '' HUP INT; exec 9</dev/null; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), envHelper+"=sanitized", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if want := "hup\nint\nno 9\n"; err != nil || string(out) != want {
		t.Errorf("got %q (%v), want %q", out, err, want)
	}
}
