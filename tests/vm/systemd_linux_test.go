package vm

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/tests/trltest"
)

// systemdDir has systemd and its units, on this machine and in the virtual one.
const systemdDir = "/usr/lib/systemd"

// TestSystemd boots a machine whose first process is systemd, with the units of dist/systemd. A user types
// the commands of the pages about them there.
func TestSystemd(t *testing.T) {
	if testing.Short() {
		t.Skip("a virtual machine takes a minute")
	}
	m, why := find()
	if _, err := os.Stat(systemdDir + "/systemd"); err != nil && why == "" {
		why = "systemd is not here"
	}
	if why != "" {
		fmt.Fprintf(os.Stderr, "SKIPPED: %s: %s\nNOT TESTED: the units for systemd, and the commands of the pages about them\n", t.Name(), why)
		t.Skip(why)
	}
	began := time.Now()
	initrd := m.image(t, withSystemd(t))
	t.Logf("built in %s", time.Since(began).Round(time.Second))
	console := m.run(t, initrd, "rdinit="+systemdDir+"/systemd systemd.show_status=0 systemd.log_target=kmsg")
	t.Logf("ended after %s", time.Since(began).Round(time.Second))
	if text, ok := section(console, "systemd"); ok {
		report(t, text)
	} else {
		t.Errorf("the machine did not run the test; its console:\n%s", tail(console, 8<<10))
	}
}

// withSystemd adds systemd, the units of dist/systemd as the packages install them, the pages, and a
// service that runs TestInsideSystemd.
func withSystemd(t *testing.T) func(*archive) {
	return func(w *archive) {
		w.entry("usr", fs.ModeSymlink|0o777, []byte("."))
		w.withLibraries(t, "bin/bash", "bash")
		w.withLibraries(t, "bin/systemctl", "systemctl")
		for _, name := range []string{"systemd", "systemd-executor"} { // the second is of systemd 255
			if path := filepath.Join(systemdDir, name); name == "systemd" || exists(path) {
				w.withLibraries(t, strings.TrimPrefix(path, "/"), path)
			}
		}
		for _, pattern := range []string{"system/*.target", "system/*.slice", "system/user@.service", "user/*.target", "user/*.slice"} {
			w.units(t, filepath.Join(systemdDir, pattern))
		}
		w.units(t, "../../dist/systemd/*/*")
		for _, page := range []string{"docs/releasing.md", "docs/guides/operator.md"} {
			w.text(t, page, filepath.Join("../..", page), strings.NewReplacer())
		}
		program := compile(t, t.TempDir(), "tests/vm")
		w.file("bin/vm.test", program)
		if text, err := os.ReadFile(program); err != nil {
			t.Fatal(err)
		} else {
			w.entry("bin/sudo", fs.ModeSetuid|0o755, text)
		}
		for name, text := range systemdFiles {
			w.entry(name, 0o644, []byte(text))
		}
		for _, dir := range []string{"proc", "sys", "dev", "run", "tmp", "root", "home/user", "home/alice", "tests/vm"} {
			w.entry(dir, fs.ModeDir|0o755, nil)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// installed are the places of trl in the units of dist, and that in the packages.
var installed = strings.NewReplacer("%h/.local/bin/trl", "/usr/bin/trl", "/usr/local/bin/trl", "/usr/bin/trl")

// units adds units. Those of dist start the trl of the packages.
func (a *archive) units(t *testing.T, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	for _, path := range paths {
		if info, err := os.Lstat(path); err != nil || info.Mode().IsRegular() {
			kind := filepath.Base(filepath.Dir(path))
			a.text(t, strings.TrimPrefix(filepath.Join(systemdDir, kind, filepath.Base(path)), "/"), path, installed)
		}
	}
}

// text adds a text of this machine, with replacements.
func (a *archive) text(t *testing.T, name, from string, replaced *strings.Replacer) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	a.entry(name, 0o644, []byte(replaced.Replace(string(text))))
}

// systemdFiles are the files of the machine by which a user is logged in and runs the test. There is no PAM, no
// logind and no journal.
var systemdFiles = map[string]string{
	"etc/passwd": "root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\nalice:x:1001:1001::/home/alice:/bin/bash\n",
	"etc/group":  "root:x:0:\nuser:x:1000:\nalice:x:1001:\n", "etc/machine-id": "uninitialized\n",
	"etc/systemd/system/user@.service.d/vm.conf": "[Service]\nPAMName=\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n",
	"lib/systemd/system/user-runtime-dir@.service": `[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mkdir -p -m 700 /run/user/%i
ExecStart=/bin/chown %i:%i /run/user/%i
`,
	"etc/systemd/system/default.target": "[Unit]\nRequires=typed.service\n",
	"etc/systemd/system/typed.service": `[Unit]
Wants=user@1000.service
After=user@1000.service
SuccessAction=poweroff-immediate
FailureAction=poweroff-immediate
JobTimeoutSec=8min
JobTimeoutAction=poweroff-immediate
[Service]
Type=oneshot
User=user
WorkingDirectory=/tests/vm
Environment=PATH=/bin HOME=/home/user LANG=C.UTF-8 XDG_RUNTIME_DIR=/run/user/1000 ` + placeVariable + `=systemd
ExecStartPre=+/bin/chown user:user /home/user
ExecStartPre=+/bin/chown alice:alice /home/alice
ExecStartPre=+/bin/chmod 1777 /tmp
ExecStartPre=/bin/echo "` + beginMark + `systemd"
ExecStart=-/bin/vm.test -test.v=test2json -test.run=^TestInsideSystemd$ -test.timeout=6m
ExecStart=/bin/echo "` + endMark + `systemd"
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
`,
}

// sudo stands for the program of that name in the machine, where it belongs to root and asks nothing.
func sudo() error {
	if err := syscall.Setgid(0); err != nil {
		return err
	}
	if err := syscall.Setuid(0); err != nil {
		return err
	}
	path, err := exec.LookPath(os.Args[1])
	if err != nil {
		return err
	}
	return syscall.Exec(path, os.Args[1:], os.Environ())
}

// TestInsideSystemd types the commands of the pages, and checks what they say about the units.
func TestInsideSystemd(t *testing.T) {
	inside(t)
	reader := trltest.Reader{Env: os.Environ(), Has: []string{"systemd"}}
	reader.Section(t, "../../docs/guides/operator.md", "## One daemon for each user", strings.NewReplacer())
	shell(t, "trl --no-start run true; systemctl --user disable --now trl.socket trl.service; sudo systemctl disable --now trl@alice.socket")
	reader.Section(t, "../../docs/releasing.md", "## Packages", strings.NewReplacer())
	serves(t)
}

// serves checks that both sockets have a daemon behind them, and that a session outlives it.
func serves(t *testing.T) {
	t.Helper()
	pid := func() string { return shell(t, "systemctl --user show -P MainPID trl.service") }
	want := func(script, text string) {
		t.Helper()
		if got := shell(t, script); got != text {
			t.Errorf("%s printed %q, want %q", script, got, text)
		}
	}
	want("systemctl --user is-active trl.socket trl.service || true", "active\ninactive\n")
	want("trl --no-start new kept >/dev/null; trl --no-start run -s kept 'x=kept; echo begun'", "begun\n")
	want("systemctl --user is-active trl.service", "active\n")
	first := pid()
	want("systemctl --user restart trl.service; trl --no-start run -s kept 'echo $x'", "kept\n")
	second := pid()
	if first == second {
		t.Errorf("process %s before and after a restart", first)
	}
	want("systemctl --user reload trl; trl --no-start run -s kept 'echo $x'", "kept\n")
	want("trl upgrade >/dev/null; trl --no-start run -s kept 'echo $x'", "kept\n")
	if third := pid(); third != second {
		t.Errorf("process %s before a reload and an upgrade, %s after them", second, third)
	}
	want("systemctl --user stop trl.service 2>/dev/null; systemctl --user is-active trl.service || true", "inactive\n")
	want("trl --no-start run -s kept 'echo $x'; trl kill kept >/dev/null", "kept\n")
	want(`sudo su -s /bin/bash alice -c 'TRL_SOCKET_PATH=/run/trl-alice.d/trl.sock trl --no-start run "id -un; pwd"'`, "alice\n/tests/vm\n")
}

// shell runs a script and returns its output.
func shell(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-euc", script)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s%s", script, err, out, &said)
	}
	return string(out)
}
