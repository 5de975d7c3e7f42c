package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/runtimes/ssh/sshdtest"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestSSH uses another machine as a person does: commands, a session, a terminal with vim, and the end
// of the daemon, which leaves nothing running there.
func TestSSH(t *testing.T) {
	server := sshdtest.Start(t, sshdtest.Options{Shell: "/bin/bash"})
	s := newSandbox(t)
	config := fmt.Sprintf("[runtimes.box]\nkind = \"ssh\"\ndestination = %q\nidentity = %q\nssh_options = [%q, %q, %q]\n",
		server.Destination(), server.Identity(), server.ClientOptions()[0], server.ClientOptions()[1], server.ClientOptions()[2])
	file := filepath.Join(s.home(), ".config/trl/config.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		stdout string
		stderr string
		status int
	}{
		{[]string{"run", "--on", "box", "cd; pwd; exit 3"}, server.Home + "\n", "", 3},
		{[]string{"run", "--on", "box", "--", "uname", "-s"}, "Linux\n", "", 0},
		{[]string{"run", "--on", "ssh:no-such-host.invalid", "true"}, "", "Could not resolve hostname no-such-host.invalid", 125},
		{[]string{"run", "--on", "ssh:-oProxyCommand=id", "true"}, "", "must not begin with -", 125},
		{[]string{"new", "work", "--on", "box"}, "s-", "", 0},
		{[]string{"run", "-s", "work", "x=1; cd /tmp"}, "", "", 0},
		{[]string{"run", "-s", "work", "echo $x $PWD"}, "1 /tmp\n", "", 0},
		{[]string{"info", "work"}, "host " + server.Destination(), "", 0},
	} {
		o := s.run(t, c.args...)
		if o.status != c.status || !strings.Contains(o.stdout, c.stdout) || !strings.Contains(o.stderr, c.stderr) {
			t.Errorf("trl %s: %+v", strings.Join(c.args, " "), o)
		}
	}
	if _, err := os.Stat("/usr/bin/vim"); err == nil {
		s.run(t, "new", "-t", "-d", "ed", "--on", "box", "--", "vim", "-u", "NONE", server.Home+"/text")
		s.run(t, "send", "ed", "ihello", "escape", ":wq", "enter")
		testkit.Eventually(t, "vim has written the file", func() bool {
			text, _ := os.ReadFile(server.Home + "/text")
			return string(text) == "hello\n"
		})
	}
	if o := s.run(t, "stop"); o.status != 0 {
		t.Errorf("trl stop: %+v", o)
	}
	if left, _ := os.ReadDir(server.Sessions); len(left) != 0 {
		t.Errorf("left on the machine: %v", left)
	}
}
