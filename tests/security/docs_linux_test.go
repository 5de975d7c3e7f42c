package security_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
		"TRL_STATE_DIR=" + d.StateDir,
	}}.Type(t, "docs/network.md", page)
}

// TestRequestOfTheNetworkPage sends the request of docs/network.md as a line, and finds its list in the session.
func TestRequestOfTheNetworkPage(t *testing.T) {
	var request struct {
		Method string `json:"method"`
		Params api.SessionCreateParams
	}
	shown := trltest.OneSnippet(t, "docs/network.md", "# The network of an isolated session", "json")
	var line bytes.Buffer
	if err := errors.Join(json.Unmarshal([]byte(shown), &request), json.Compact(&line, []byte(shown))); err != nil {
		t.Fatal(err)
	}
	d := trltest.Start(t)
	c := testkit.Must(net.Dial("unix", d.Socket))(t)
	defer c.Close()
	testkit.Must(c.Write(append(line.Bytes(), '\n')))(t)
	var answer struct {
		OK    bool
		Data  api.SessionInfo
		Error *api.Error
	}
	if err := json.NewDecoder(c).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if !answer.OK {
		t.Fatal(answer.Error)
	}
	info := testkit.Must(d.Client(t).SessionInfo(t.Context(), api.SessionInfoParams{SessionID: answer.Data.SessionID}))(t)
	want := request.Params.Isolation
	if info.Isolation == nil || info.Isolation.Network != api.NetworkAllow || want == nil || !slices.Equal(info.Isolation.Allow, want.Allow) || len(want.Allow) == 0 {
		t.Errorf("%+v, want %+v", info.Isolation, want)
	}
}
