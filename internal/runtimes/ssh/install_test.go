package ssh_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runners"
	"github.com/trl-dev/trl/internal/runtimes/ssh/sshdtest"
	"github.com/trl-dev/trl/internal/testkit"
)

func install(t *testing.T, s remote.Machine) (path string, steps []api.PlaceProgress) {
	t.Helper()
	path, err := s.Install(t.Context(), func(p api.PlaceProgress) { steps = append(steps, p) })
	if err != nil {
		t.Fatal(err)
	}
	return path, steps
}

func ownRunner(t *testing.T) runners.Program {
	t.Helper()
	p, err := runners.Find(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wantRunner checks a file that Install has made.
func wantRunner(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); got != ownRunner(t).SHA256 {
		t.Errorf("%s has the hash %s, want %s", path, got, ownRunner(t).SHA256)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o700 {
		t.Errorf("%s has the mode %s", path, info.Mode())
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%s has %d files, want the runner alone", filepath.Dir(path), len(entries))
	}
}

func TestInstall(t *testing.T) {
	c := newClient(t)
	server := newServer(t, sshdtest.Options{})
	site := c.site(target(server))
	path, steps := install(t, site)
	cache := filepath.Join(server.Home, ".cache/trl", ownRunner(t).FileName())
	if path != cache {
		t.Errorf("installed %s, want %s", path, cache)
	}
	wantRunner(t, path)
	size := ownRunner(t).Size
	if n := len(steps); n < 2 || steps[0].Done != 0 || steps[n-1].Done != size || steps[n-1].Total != size || steps[0].Step != "upload" {
		t.Errorf("progress %+v", steps)
	}
	if info := site.Info(); info.Kind != api.PlaceSSH || info.Host != server.Destination() || info.OS != runtime.GOOS || info.Arch != runtime.GOARCH {
		t.Errorf("info %+v", info)
	}
	if out, exit := output(t, site, "", path, "check"); exit.Status != 0 || !strings.Contains(out, `"arch"`) {
		t.Errorf("check printed %q, %+v", out, exit)
	}

	// This daemon and the next one find the runner; nothing is copied.
	c.Close()
	c.open()
	if again, steps := install(t, c.site(target(server))); again != path || len(steps) != 0 {
		t.Errorf("installed %s again, with progress %+v", again, steps)
	}

	// Another program removes the runner.
	site = c.site(target(server))
	install(t, site)
	if err := os.RemoveAll(filepath.Join(server.Home, ".cache")); err != nil {
		t.Fatal(err)
	}
	if _, exit := output(t, site, "", path, "check"); exit.Status != 0 {
		t.Errorf("a runner that was removed: %+v", exit)
	}
	wantRunner(t, path)
}

// TestInstallAtOnce: several daemons copy the runner at the same time.
func TestInstallAtOnce(t *testing.T) {
	server := newServer(t, sshdtest.Options{})
	var wg sync.WaitGroup
	for range 4 {
		site := newClient(t).site(target(server))
		wg.Go(func() {
			if _, err := site.Install(t.Context(), func(api.PlaceProgress) {}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantRunner(t, filepath.Join(server.Home, ".cache/trl", ownRunner(t).FileName()))
}

// TestInstallCleans: runners that were not used for long are removed.
func TestInstallCleans(t *testing.T) {
	server := newServer(t, sshdtest.Options{})
	dir := filepath.Join(server.Home, ".cache/trl")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	age := func(name string, days int) string {
		path := filepath.Join(dir, name)
		at := time.Now().Add(-time.Duration(days) * 24 * time.Hour)
		if err := errors.Join(os.WriteFile(path, nil, 0o700), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gone := []string{age("trl-runner-old", 40), age(".trl-runner-cut.1", 3)}
	kept := []string{age("trl-runner-young", 20), age(".trl-runner-now.2", 0), age("other", 100)}
	install(t, newClient(t).site(target(server)))
	for _, path := range gone {
		testkit.Eventually(t, path+" is removed", func() bool {
			_, err := os.Stat(path)
			return err != nil
		})
	}
	for _, path := range kept {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestInstallElsewhere: where the home directory cannot have programs, another directory is used.
func TestInstallElsewhere(t *testing.T) {
	for _, c := range []struct{ name, mount, want string }{
		{"noexec home", "mount -t tmpfs -o noexec none $H", "/var/tmp/trl-cache-0/"},
		{"read-only home", "mount -t tmpfs -o ro none $H", "/var/tmp/trl-cache-0/"},
		{"only memory", "mount -t tmpfs -o noexec none $H; mount -t tmpfs -o ro none /var/tmp; mount --bind /tmp /tmp; mount -o remount,bind,noexec /tmp", "/dev/shm/trl-cache-0/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// /var/tmp and /dev/shm are private too, so that nothing is left on this machine.
			server := newServer(t, sshdtest.Options{Mount: "mount -t tmpfs none /var/tmp; mount -t tmpfs none /dev/shm; " + c.mount})
			site := newClient(t).site(target(server))
			path, _ := install(t, site)
			if !strings.HasPrefix(path, c.want) {
				t.Errorf("installed %s, want it in %s", path, c.want)
			}
			if _, exit := output(t, site, "", path, "check", ownRunner(t).SHA256); exit.Status != 0 {
				t.Errorf("check: %+v", exit)
			}
			if out, _ := output(t, site, "", "/bin/sh", "-c", "ls -A $HOME; ls -A /tmp | grep ^trl-cache"); out != "" {
				t.Errorf("left: %q", out)
			}
		})
	}
}

// TestInstallNowhere: a clear error, and nothing is left.
func TestInstallNowhere(t *testing.T) {
	private := "mount -t tmpfs none /var/tmp; mount -t tmpfs none /dev/shm; mount --bind /tmp /tmp; "
	for _, c := range []struct {
		name, mount string
		says        []string
	}{
		{"noexec everywhere", "mount -t tmpfs -o noexec none $H; mount -o remount,bind,noexec /tmp; mount -o remount,noexec /var/tmp; mount -o remount,noexec /dev/shm",
			[]string{"no directory", "/.cache/trl: ", "Permission denied", "XDG_CACHE_HOME"}},
		{"read-only everywhere", "mount -t tmpfs -o ro none $H; mount -o remount,bind,ro /tmp; mount -o remount,ro /var/tmp; mount -o remount,ro /dev/shm",
			[]string{"no directory", "Read-only file system"}},
		{"full disk", "mount -t tmpfs -o size=1m none $H",
			[]string{"cannot be stored", "No space left on device"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newServer(t, sshdtest.Options{Mount: private + c.mount})
			site := newClient(t).site(target(server))
			_, err := site.Install(t.Context(), func(api.PlaceProgress) {})
			if !errors.Is(err, api.ErrRuntimeUnavailable) {
				t.Fatal(err)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			out, _ := output(t, site, "", "/bin/sh", "-c", "find $HOME /var/tmp /dev/shm -name '*trl*'; ls -d /tmp/trl-cache-0")
			if out != "" {
				t.Errorf("left: %q", out)
			}
		})
	}
}

// TestInstallStrangers: a directory in /tmp that another user has made is not used.
func TestInstallStrangers(t *testing.T) {
	server := newServer(t, sshdtest.Options{Mount: "mount -t tmpfs -o noexec none $H; mount -t tmpfs none /var/tmp; mkdir -m 777 /var/tmp/trl-cache-0; chown 1234 /var/tmp/trl-cache-0; mount -t tmpfs none /dev/shm; mount --bind /tmp /tmp; mount -o remount,bind,noexec /tmp"})
	path, _ := install(t, newClient(t).site(target(server)))
	if !strings.HasPrefix(path, "/dev/shm/trl-cache-0/") {
		t.Errorf("installed %s", path)
	}
}

// TestInstallCut: a copy that breaks off leaves nothing, and the next one succeeds.
func TestInstallCut(t *testing.T) {
	c := newClient(t)
	server := newServer(t, sshdtest.Options{})
	site := c.site(target(server))
	_, err := site.Install(t.Context(), func(p api.PlaceProgress) {
		if p.Done == 0 {
			server.Kill()
		}
	})
	if !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("a copy that was cut off: %v", err)
	}
	server.Run()
	path, _ := install(t, site)
	testkit.Eventually(t, "the first shell has removed its file", func() bool {
		entries, _ := os.ReadDir(filepath.Dir(path))
		return len(entries) == 1
	})
	wantRunner(t, path)
}
