package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestOtherDaemon uses the machine of another daemon as a person does: by a name of the configuration
// and by its address, with the checks of places, and the end of the daemon, which leaves nothing there.
func TestOtherDaemon(t *testing.T) {
	far := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0"))
	there := far.Client(t)
	s := newSandbox(t)
	token := filepath.Join(s.home(), "box.token")
	file := filepath.Join(s.home(), ".config/trl/config.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		token: far.Token(t) + "\n",
		file:  fmt.Sprintf("[runtimes.box]\nkind = \"trl\"\naddress = %q\ntoken_file = %q\nowner_lost_s = 3600\n", far.GRPC(t), token),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args   []string
		stdout string
		stderr string
		status int
	}{
		{[]string{"runtimes", "check", "box"}, "trl ", "", 0},
		{[]string{"doctor"}, "box", "", 0},
		{[]string{"run", "--on", "box", "echo there; exit 3"}, "there\n", "", 3},
		{[]string{"run", "--on", "trl:" + far.GRPC(t), "--place", "token_file=" + token, "--", "uname", "-s"}, "Linux\n", "", 0},
		{[]string{"run", "--on", "trl:" + far.GRPC(t), "true"}, "", "token: is required", 125},
		{[]string{"run", "--on", "trl:grpc://127.0.0.1:1", "true"}, "", "connection refused", 125},
		{[]string{"run", "--on", "trl:box", "true"}, "", "grpc://127.0.0.1:7331", 125},
		{[]string{"run", "--on", "box", "--place", "owner_lost_s=1", "true"}, "", "does not allow callers to set it", 125},
		{[]string{"run", "--on", "trl:" + far.GRPC(t), "--place", "token_file=" + token, "--place", "runtime=host", "echo there"}, "there\n", "", 0},
		{[]string{"run", "--on", "trl:" + far.GRPC(t), "--place", "token_file=" + token, "--place", "runtime=hots", "true"}, "", "did you mean host?", 125},
		{[]string{"new", "work", "--on", "box"}, "s-", "", 0},
		{[]string{"run", "-s", "work", "x=1; cd /tmp"}, "", "", 0},
		{[]string{"run", "-s", "work", "echo $x $PWD"}, "1 /tmp\n", "", 0},
		{[]string{"info", "work"}, "daemon " + far.GRPC(t), "", 0},
		{[]string{"runtimes"}, "box", "", 0},
	} {
		o := s.run(t, c.args...)
		if o.status != c.status || !strings.Contains(o.stdout, c.stdout) || !strings.Contains(o.stderr, c.stderr) {
			t.Errorf("trl %s: %+v", strings.Join(c.args, " "), o)
		}
	}
	list := testkit.Must(there.SessionList(t.Context(), api.SessionListParams{}))(t).Sessions
	if len(list) != 1 || list[0].Guest == nil || list[0].Guest.OwnerLostS != 3600 {
		t.Errorf("over there are %+v", list)
	} else if o := s.run(t, "--socket", far.Socket, "info", list[0].SessionID); !strings.Contains(o.stdout, "the daemon on ") {
		t.Errorf("trl info: %+v", o)
	}
	if o := s.run(t, "stop"); o.status != 0 {
		t.Errorf("trl stop: %+v", o)
	}
	if list := testkit.Must(there.SessionList(t.Context(), api.SessionListParams{}))(t).Sessions; len(list) != 0 {
		t.Errorf("left over there: %+v", list)
	}
}
