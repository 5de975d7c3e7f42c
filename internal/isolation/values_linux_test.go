package isolation_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/isolation"
)

// A secret file of the daemon that a program outside removes keeps no process from starting. One that
// disappears because the session renamed its directory does.
func TestSecretFileRemoved(t *testing.T) {
	asUsers(t, func(t *testing.T, dir string) {
		secret := dir + "/etc/key"
		if err := errors.Join(os.Mkdir(dir+"/etc", 0o700), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, isolation.Request{
			Isolation: api.Isolation{Processes: api.ProcessesOwn}, WorkingDir: dir + "/work", Home: dir, Private: dir + "/private", Secrets: []string{secret},
		})
		if !w.namespaces() {
			t.Skip("needs namespaces: " + w.missing(api.AspectSockets))
		}
		if out, err := w.run("cat " + secret + " 2>/dev/null; mv " + secret + " " + dir + "/k 2>/dev/null || echo kept"); err != nil || out != "kept\n" {
			t.Errorf("%q, %v", out, err)
		}
		if err := os.Remove(secret); err != nil {
			t.Fatal(err)
		}
		if out, err := w.run("echo started"); err != nil || out != "started\n" {
			t.Errorf("after its removal: %q, %v", out, err)
		}
		if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := w.run("cat " + secret + " 2>/dev/null; mv " + dir + "/etc " + dir + "/away && mkdir " + dir + "/etc && echo moved"); err != nil || out != "moved\n" {
			t.Errorf("%q, %v", out, err)
		}
		if out, err := w.run("cat " + dir + "/away/key"); !errors.Is(err, syscall.ESTALE) {
			t.Errorf("after the directory moved: %q, %v", out, err)
		}
	})
}

// With processes own, the files of other processes in /proc cannot be written, although the session has
// all files.
func TestValuesOfProcesses(t *testing.T) {
	asUsers(t, func(t *testing.T, dir string) {
		state := dir + "/state"
		if err := os.Mkdir(state, 0o700); err != nil {
			t.Fatal(err)
		}
		victim := exec.Command("/bin/sleep", "1000")
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = victim.Process.Kill()
			_ = victim.Wait()
		}()
		w := newWorld(t, isolation.Request{
			Isolation: api.Isolation{Processes: api.ProcessesOwn}, WorkingDir: dir + "/work", Home: dir, Private: dir + "/private", Secrets: []string{state},
		})
		if !w.namespaces() {
			t.Skip("needs namespaces: " + w.missing(api.AspectSockets))
		}
		of := "/proc/" + strconv.Itoa(victim.Process.Pid)
		out, err := w.run("for f in oom_score_adj autogroup coredump_filter clear_refs; do [ -e " + of + "/$f ] && (echo 1 >" + of + "/$f) 2>/dev/null && echo $f; done; echo x >" + dir + "/made; cat /proc/self/comm")
		if err != nil || out != "cat\n" {
			t.Errorf("%q, %v", out, err)
		}
		if _, err := os.Stat(dir + "/made"); err != nil {
			t.Errorf("a file of the user: %v", err)
		}
	})
}

// Python's multiprocessing works: with namespaces by itself, in a /dev/shm of the session's own, and
// without them if the session lists that directory.
func TestSharedMemory(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || !strings.HasPrefix(python, "/usr/bin/") {
		t.Skip("SKIPPED: needs /usr/bin/python3")
	}
	asUsers(t, func(t *testing.T, dir string) {
		outside, err := os.CreateTemp("/dev/shm", "trl-test-")
		if err != nil {
			t.Skip(err)
		}
		defer os.Remove(outside.Name())
		outside.Close()
		for _, without := range []bool{false, true} {
			for _, listed := range []bool{false, true} {
				wanted := api.Isolation{Files: api.FilesWorkspace}
				if listed {
					wanted.Writable = []string{"/dev/shm"}
				}
				isolation.NoNamespaces(without)
				name := strconv.FormatBool(without) + strconv.FormatBool(listed)
				w := newWorld(t, isolation.Request{
					Isolation: wanted, WorkingDir: dir + "/home/work", Home: dir + "/home", Private: dir + "/private" + name,
				})
				isolation.NoNamespaces(false)
				out, err := w.run(`python3 -c 'import multiprocessing as m; m.Lock(); print(m.Pool(2).map(len, ["a"]))' 2>/dev/null; [ -e ` + outside.Name() + ` ] && cat ` + outside.Name() + ` 2>/dev/null && echo visible`)
				visible, works := strings.HasSuffix(out, "visible\n"), strings.HasPrefix(out, "[1]\n")
				if err != nil || works != (w.namespaces() || listed) || visible != (!w.namespaces() && listed) {
					t.Errorf("namespaces %v, listed %v: %q, %v", w.namespaces(), listed, out, err)
				}
			}
		}
	})
}
