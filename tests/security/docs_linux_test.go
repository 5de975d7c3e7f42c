package security_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/ssh/sshdtest"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestNetworkPage types every command of docs/network.md: those of a session in a session, whose list has a
// site and an sshd of this machine in the place of github.com.
func TestNetworkPage(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "nc", "python3", "ssh"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	if help, _ := exec.Command("nc", "-h").CombinedOutput(); !strings.Contains(string(help), "[-X ") {
		t.Skip("nc is not that of OpenBSD: the commands of docs/network.md are not tested")
	}
	server := sshdtest.Start(t, sshdtest.Options{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") }))
	defer site.Close()
	d := trltest.Start(t)
	listed := []string{strings.TrimPrefix(site.URL, "http://"), server.Host + ":" + server.Port}
	testkit.Must(d.Client(t).SessionCreate(t.Context(), api.SessionCreateParams{
		Name: "proxied", Isolation: &api.Isolation{Network: api.NetworkAllow, Allow: listed},
	}))(t)

	ssh := "-F /dev/null -i " + server.Identity()
	for _, option := range server.ClientOptions() {
		ssh += " -o " + option
	}
	page := string(testkit.Must(os.ReadFile("../../docs/network.md"))(t))
	page = strings.NewReplacer("https://github.com/", site.URL, "git@github.com", ssh+" "+server.Destination()+" echo hello").Replace(page)
	trltest.Reader{Env: []string{
		"HOME=" + t.TempDir(), "PATH=" + filepath.Dir(trltest.Binary(t)) + ":" + os.Getenv("PATH"), "TRL_SOCKET_PATH=" + d.Socket,
	}}.Type(t, "docs/network.md", page)
}
