package confine_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/confine"
	"github.com/trl-dev/trl/internal/process"
)

// open is isolation that forbids nothing that these tests do.
func open(namespaces uintptr) *confine.Isolation {
	i := &confine.Isolation{Landlock: confine.LandlockVersion(), Families: []int{unix.AF_UNIX}, Namespaces: namespaces}
	if namespaces&unix.CLONE_NEWNS != 0 {
		i.View = []confine.Mount{{Path: "/", Kind: confine.MountWhole}}
	}
	return i
}

// isolations are those that a process gets between fork and exec.
func isolations(t *testing.T) map[string]*confine.Isolation {
	all := map[string]*confine.Isolation{"alone": open(0)}
	if os.Geteuid() == 0 {
		all["namespaces"] = open(unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET)
	} else {
		t.Log("SKIPPED namespaces: needs root")
	}
	return all
}

// A confined program begins with the same signals, limits and environment as another one.
func TestSameBeginning(t *testing.T) {
	if os.Getenv("LOWERED") == "" { // the Go runtime raises the limit of open files, which the program must not have
		c := exec.Command("/bin/sh", "-c", `ulimit -Sn 500; exec "$0" -test.run='^TestSameBeginning$'`, os.Args[0])
		c.Env = append(os.Environ(), "LOWERED=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	const script = `grep -E 'Sig[BIC]|Shd' /proc/self/status; ulimit -Sn; ulimit -Hn; umask; echo "$A"`
	want, err := run(t, nil, "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	for name, i := range isolations(t) {
		if got, err := run(t, &confine.Confinement{Isolation: i}, "/bin/sh", "-c", script); err != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

// Each file gets its own number, also where the numbers that the files have here are in another order.
func TestNumbersOfFiles(t *testing.T) {
	reaper := process.NewReaper()
	defer reaper.Close()
	dir := t.TempDir()
	var files []*os.File
	for n := range 4 {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(n)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	// The numbers from the first file on, in the reverse order, are among those that the child gets.
	low := int(files[0].Fd())
	var order []*os.File
	for range low {
		order = append(order, files[0])
	}
	order = append(order, files[3], files[2], files[1], files[0])
	script := ""
	for n := range 4 {
		script += "echo is " + strconv.Itoa(low+n) + " >&" + strconv.Itoa(low+n) + ";"
	}
	bash := "/bin/bash" // other shells have no descriptors above 9
	c := &confine.Confinement{Rlimits: []confine.Rlimit{{Resource: syscall.RLIMIT_FSIZE, Max: 1 << 20}}}
	p, err := confine.Start(reaper.Start, process.Spec{Path: bash, Args: []string{bash, "-c", script}, Dir: "/", Files: order}, c)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	for n := range 4 {
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(3-n)))
		if want := "is " + strconv.Itoa(low+n) + "\n"; err != nil || string(text) != want {
			t.Errorf("file %d has %q, want %q (%v)", 3-n, text, want, err)
		}
	}
}

// Nothing of the confinement stays in this process: not in a thread, and no descriptor.
func TestStarterUnconfined(t *testing.T) {
	state := func() string {
		var all bytes.Buffer
		tasks, _ := filepath.Glob("/proc/self/task/*")
		for _, task := range tasks {
			status, err := os.ReadFile(task + "/status")
			if err != nil {
				continue // the thread has ended
			}
			for line := range strings.Lines(string(status)) {
				for _, name := range []string{"NoNewPrivs:", "Seccomp:", "CapEff:", "CapBnd:"} {
					if strings.HasPrefix(line, name) {
						all.WriteString(line)
					}
				}
			}
		}
		lines := map[string]bool{}
		for line := range strings.Lines(all.String()) {
			lines[line] = true
		}
		return strconv.Itoa(len(lines)) + " different values"
	}
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	for name, i := range isolations(t) {
		c := &confine.Confinement{Isolation: i, Rlimits: []confine.Rlimit{{Resource: syscall.RLIMIT_FSIZE, Max: 1 << 20}}}
		if _, err := run(t, c, "/bin/true"); err != nil { // the first start opens the poller
			t.Fatal(err)
		}
		before, fds := state(), count()
		for range 5 {
			if text, err := run(t, c, "/bin/sh", "-c", "grep NoNewPrivs /proc/self/status"); err != nil || text != "NoNewPrivs:\t1\n" {
				t.Fatalf("%s: %q, %v", name, text, err)
			}
			if _, err := run(t, c, "/bin/not-there"); err == nil {
				t.Fatal("a program that is not there was started")
			}
		}
		if now := state(); now != before || now != "4 different values" {
			t.Errorf("%s: the threads have %s, before %s", name, now, before)
		}
		if now := count(); now != fds {
			t.Errorf("%s: %d descriptors, before %d", name, now, fds)
		}
		main, err := os.Readlink("/proc/self/ns/mnt")
		if own, ownErr := os.Readlink("/proc/thread-self/ns/mnt"); err != nil || ownErr != nil || own != main {
			t.Errorf("%s: the namespace of the main thread is %s, %v, of this one %s, %v", name, main, err, own, ownErr)
		}
	}
}

// A working directory cannot lead out of the tree that a process sees, by the links of /proc to the trees
// of other processes.
func TestWorkingDirectoryStaysInside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/proc/1/root", link); err != nil {
		t.Fatal(err)
	}
	reaper := process.NewReaper()
	defer reaper.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	pid := strconv.Itoa(os.Getpid())
	for _, dir := range []string{"/proc/self/root", "/proc/1/root", "/proc/1/cwd", "/proc/" + pid + "/root/tmp", "/proc/" + pid + "/net", link, link + "/tmp"} {
		i := open(unix.CLONE_NEWNS | unix.CLONE_NEWIPC)
		spec := process.Spec{Path: "/bin/true", Args: []string{"true"}, Dir: dir, Files: []*os.File{null, null, null}}
		if p, err := confine.Start(reaper.Start, spec, &confine.Confinement{Isolation: i}); err == nil {
			<-p.Done()
			t.Errorf("%s: a process started there", dir)
		}
		out, theirs, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		spec = process.Spec{Path: "/bin/pwd", Args: []string{"pwd", "-P"}, Dir: dir, NearDir: true, Files: []*os.File{null, theirs, null}}
		p, err := confine.Start(reaper.Start, spec, &confine.Confinement{Isolation: i})
		theirs.Close()
		text, readErr := io.ReadAll(out)
		out.Close()
		if err != nil || readErr != nil {
			t.Errorf("%s: no directory above: %v, %v", dir, err, readErr)
			continue
		}
		<-p.Done()
		if want := "/\n"; dir != link && dir != link+"/tmp" && string(text) != want {
			t.Errorf("%s: the nearest directory is %q, want %q", dir, text, want)
		}
	}
}

// A process with NearDir whose directory was removed begins in the nearest one above.
func TestNearDirectory(t *testing.T) {
	reaper := process.NewReaper()
	defer reaper.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, i := range isolations(t) {
		out, theirs, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		spec := process.Spec{Path: "/bin/pwd", Args: []string{"pwd", "-P"}, Dir: dir + "/removed/below", NearDir: true, Files: []*os.File{null, theirs, null}}
		p, err := confine.Start(reaper.Start, spec, &confine.Confinement{Isolation: i})
		theirs.Close()
		text, readErr := io.ReadAll(out)
		out.Close()
		if err != nil || readErr != nil || string(text) != dir+"\n" {
			t.Errorf("%s: %q, %v, %v; want %s", name, text, err, readErr, dir)
			continue
		}
		<-p.Done()
	}
}
