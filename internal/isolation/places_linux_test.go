package isolation_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/isolation"
)

// A program cannot lead the next process of its session out through the directories in which that
// makes the places for its mounts: the session may write them, but not rename them.
func TestParentsOfMounts(t *testing.T) {
	asUsers(t, func(t *testing.T, dir string) {
		for _, files := range []string{api.FilesWorkspace, api.FilesReadOnly} {
			t.Run(files, func(t *testing.T) { parentsOfMounts(t, dir, files) })
		}
	})
}

func parentsOfMounts(t *testing.T, dir, files string) {
	home, outside := dir+"/"+files, dir+"/outside-"+files
	work := home + "/src/deep/proj"
	if err := errors.Join(os.MkdirAll(work, 0o700), os.MkdirAll(outside, 0o700), os.WriteFile(work+"/.env", []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, isolation.Request{
		Isolation:  api.Isolation{Files: files, Hidden: []string{work + "/.env"}},
		WorkingDir: work, Home: home, Private: dir + "/private-" + files,
	})
	if !w.namespaces() {
		t.Skip("needs namespaces")
	}
	if !strings.HasPrefix(home, "/tmp/") && !strings.HasPrefix(home, "/var/tmp/") {
		t.Skip("needs a directory for temporary files in /tmp or /var/tmp")
	}
	if w.missing(api.AspectReplaced) == "" {
		t.Error("does not report that the hidden file can be replaced outside")
	}
	w.BestEffort = false
	if _, err := isolation.NewPlan(w.Request); w.missing(api.AspectFiles)+w.missing(api.AspectPaths)+w.missing(api.AspectSockets) == "" && err != nil {
		t.Errorf("a session that requires its isolation: %v", err)
	}
	out, err := w.run(`cd ~ && mkdir -p b && mv src x; mv src/deep src/x; mv -T b src; ln -s /old` + outside + ` src; echo kept >own; cat src/deep/proj/.env; ls -d src/deep/proj`)
	if err != nil || strings.Count(out, "busy") < 2 || !strings.HasSuffix(out, "\nsrc/deep/proj\n") || strings.Contains(out, "secret") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err = w.run("cat ~/own; cat .env 2>/dev/null"); err != nil || out != "kept\n" {
		t.Errorf("the next process: %q, %v", out, err)
	}
	// Someone outside can rename them. No process follows the link that is then there.
	for _, name := range []string{"src", "src/deep", "src/deep/proj"} {
		at := w.Private + strings.TrimPrefix(home, "/var") + "/" + name // the home is in /tmp or /var/tmp
		if err := errors.Join(os.Rename(at, at+"-away"), os.Symlink("/old"+outside, at)); err != nil {
			t.Fatal(err)
		}
		if out, err = w.run("true"); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("with a link at %s: %q, %v", name, out, err)
		}
		if err := errors.Join(os.Remove(at), os.Rename(at+"-away", at)); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside are %v, %v", entries, err)
	}
	// What cannot be hidden is an error, not a process that may see it.
	if err := os.Remove(work + "/.env"); err != nil {
		t.Fatal(err)
	}
	if out, err = w.run("true"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the hidden file: %q, %v", out, err)
	}
}

// A path that leads through links, and one in a hidden directory, are no reason to fail.
func TestPathsThroughLinks(t *testing.T) {
	asUsers(t, func(t *testing.T, dir string) {
		real := dir + "/var-home/me"
		work := real + "/src/proj"
		if err := errors.Join(os.MkdirAll(work+"/keys/old", 0o700), os.Symlink("var-home", dir+"/home"), os.WriteFile(work+"/keys/old/key", []byte("secret"), 0o600)); err != nil {
			t.Fatal(err)
		}
		named := dir + "/home/me"
		w := newWorld(t, isolation.Request{
			Isolation:  api.Isolation{Files: api.FilesWorkspace, Readable: []string{"/bin/sh"}, Hidden: []string{named + "/src/proj/keys/old", named + "/src/proj/keys"}},
			WorkingDir: named + "/src/proj", Home: named, Private: dir + "/home/private",
		})
		if reason := w.missing(api.AspectReplaced); reason != "" {
			t.Errorf("hidden directories: %s", reason)
		}
		if out, err := w.run("echo x >made; cat made; ls keys/old 2>&1 | grep -c key$"); err != nil || w.namespaces() && out != "x\n0\n" {
			t.Errorf("%q, %v", out, err)
		}
	})
}
