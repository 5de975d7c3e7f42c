package isolation_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/isolation"
)

// A session with all files does not reach the daemon, which would start programs without isolation.
func TestDaemonOutOfReach(t *testing.T) {
	asUsers(t, func(t *testing.T, dir string) {
		for _, wanted := range []api.Isolation{{Network: api.NetworkNone}, {Processes: api.ProcessesOwn}} {
			for _, without := range []bool{false, true} {
				name := wanted.Network + wanted.Processes + map[bool]string{true: " without namespaces"}[without]
				t.Run(name, func(t *testing.T) {
					isolation.NoNamespaces(without)
					defer isolation.NoNamespaces(false)
					daemonOutOfReach(t, dir+"/"+strings.ReplaceAll(name, " ", "-"), wanted)
				})
			}
		}
	})
}

func daemonOutOfReach(t *testing.T, dir string, wanted api.Isolation) {
	state, channel := dir+"/local/state", dir+"/local/state/run/sh"
	k := knowledge{Socket: state + "/socket"}
	if err := errors.Join(os.MkdirAll(channel, 0o700), os.WriteFile(state+"/token", []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", k.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := newWorld(t, isolation.Request{
		Isolation: wanted, WorkingDir: dir + "/work", Home: dir, Private: dir + "/private", Channel: channel, Secrets: []string{k.Socket, state, state + "/absent"},
	})
	text, _ := json.Marshal(k)
	out, err := w.run(envAttack + `='` + string(text) + `' ` + copySelf(t, dir) + ` only 'named unix socket'; echo; cat ` + state + `/token; echo; echo x >` + channel + `/x; echo x >` + dir + `/made; ls ` + channel)
	if reason := w.missing(api.AspectSockets); reason != "" {
		t.Logf("not enforced: %s", reason)
		w.BestEffort = false
		var e *api.Error
		if _, err := isolation.NewPlan(w.Request); !errors.As(err, &e) || e.Code != api.CodeIsolationUnavailable {
			t.Errorf("a session that requires it: %v", err)
		}
		return
	}
	if err != nil || strings.HasPrefix(out, "<nil>") || w.namespaces() && strings.Contains(out, "secret") || !strings.HasSuffix(out, "\nx\n") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := os.Stat(dir + "/made"); err != nil {
		t.Errorf("a file of the user: %v", err)
	}
	w.WorkingDir = channel
	if _, err := isolation.NewPlan(w.Request); err == nil || !strings.Contains(err.Error(), "belongs to the daemon") {
		t.Errorf("begins in a directory of the daemon: %v", err)
	}
	w.WorkingDir = dir
	if !w.namespaces() {
		return
	}
	// The session may rename the directories above. The next process does not see the real ones.
	if out, err = w.run("cd " + dir + " && mv local away && mkdir -p local/state && echo done"); err != nil || out != "done\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err = w.run("cat " + dir + "/away/state/token"); !errors.Is(err, syscall.ESTALE) {
		t.Errorf("after the directory moved: %q, %v", out, err)
	}
}

// Without a home, too, the files of the daemon are hidden, also through a link, and no path of a session
// is inside them.
func TestFilesOfTheDaemon(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(dir+"/var/work/state/sub", 0o700), os.Symlink("var", dir+"/link"), os.WriteFile(dir+"/var/work/state/token", []byte("secret"), 0o600), os.Mkdir(dir+"/other", 0o700)); err != nil {
		t.Fatal(err)
	}
	request := func(i api.Isolation, work string) isolation.Request {
		return isolation.Request{Isolation: i, BestEffort: true, WorkingDir: work, Home: dir + "/absent", Private: dir + "/private", Secrets: []string{dir + "/link/work/state"}}
	}
	for field, r := range map[string]isolation.Request{
		"working_dir":         request(api.Isolation{Files: api.FilesReadOnly}, dir+"/var/work/state/sub"),
		"isolation.writable":  request(api.Isolation{Files: api.FilesReadOnly, Writable: []string{dir + "/var/work/state/sub"}}, dir+"/other"),
		"isolation.readable":  request(api.Isolation{Files: api.FilesReadOnly, Readable: []string{dir + "/link/work/state"}}, dir+"/other"),
		"isolation.hidden":    request(api.Isolation{Files: api.FilesReadOnly, Hidden: []string{dir + "/other/absent"}}, dir+"/other"),
		"isolation.read_only": request(api.Isolation{Files: api.FilesReadOnly, ReadOnly: []string{dir + "/other/absent"}}, dir+"/other"),
	} {
		var e *api.Error
		if _, err := isolation.NewPlan(r); !errors.As(err, &e) || e.Code != api.CodeInvalidParams || e.Details["field"] != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	r := request(api.Isolation{Files: api.FilesReadOnly, Readable: []string{dir + "/var/work"}}, dir+"/other")
	if err := os.Mkdir(r.Private, 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWorldIn(t, r)
	if out, err := w.run("cat " + dir + "/var/work/state/token || echo refused"); err != nil || strings.Contains(out, "secret") || !strings.HasSuffix(out, "refused\n") {
		t.Errorf("%q, %v", out, err)
	}
}
