//go:build linux

package places

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/kubernetes/clustertest"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestDaemonInCluster types the commands by which the page starts a daemon in a cluster. The cluster pulls the
// image of that daemon, and its sessions are in pods that it creates with the rights of its account. They
// survive its pod.
func TestDaemonInCluster(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Start(t)
	dir := t.TempDir()
	k := kubectl{t, clustertest.Kubectl(t), []string{"HOME=" + dir, "KUBECONFIG=" + cluster.Kubeconfig}}
	cluster.Publish(t, "ghcr.io/trl-dev/trl:latest", trltest.Image(t))
	cluster.Volume(t)
	t.Cleanup(func() { k.run("delete", "namespace", "trl") })
	t.Cleanup(func() {
		for _, command := range []string{"get events", "describe pods", "logs deployment/trl"} {
			if t.Failed() {
				out, err := k.command(strings.Fields("-n trl " + command)...).CombinedOutput()
				t.Logf("kubectl %s: %v\n%s", command, err, out)
			}
		}
	})
	for name, to := range map[string]string{
		"bin/trl": testkit.Must(trltest.Static())(t), "bin/kubectl": k.program, "dist": testkit.Must(filepath.Abs("../../dist"))(t),
	} {
		name = filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.Symlink(to, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	daemon := startDaemon(t)
	trltest.Reader{Dir: dir, Has: []string{"kubectl"}, Env: slices.Concat(k.env, []string{
		"PATH=" + dir + "/bin:" + os.Getenv("PATH"), "TRL_SOCKET_PATH=" + daemon.Socket, "TRL_STATE_DIR=" + daemon.StateDir,
	})}.Section(t, "../../docs/runtimes.md", "### A daemon in the cluster", strings.NewReplacer())
	if t.Failed() {
		return
	}

	const local = "7332" // the page has 7331
	stop := k.forward(local)
	c := daemon.Client(t)
	s := testkit.Must(c.SessionCreate(t.Context(), api.SessionCreateParams{
		Runtime: "trl:grpcs://localhost:" + local,
		Place:   &api.PlaceOptions{TokenFile: filepath.Join(dir, "trl.token"), CAFile: filepath.Join(dir, "trl.crt")},
	}))(t).SessionID
	testkit.Must(c.ExecRun(t.Context(), api.ExecParams{SessionID: s, Command: "x=kept"}))(t)
	pods := func() string { return k.run("-n", "trl", "get", "pods", "-l", "trl.dev/session", "-o", "name") }
	if got := strings.Fields(pods()); len(got) != 1 {
		t.Errorf("pods of sessions: %q, want one", got)
	}
	k.run("-n", "trl", "delete", "pod", "-l", "app=trl")
	stop()
	k.run("-n", "trl", "rollout", "status", "deployment/trl")
	defer k.forward(local)()
	if r := testkit.Must(c.ExecRun(t.Context(), api.ExecParams{SessionID: s, Command: `echo "$x"`}))(t); r.Stdout != "kept\n" {
		t.Errorf("after a new pod of the daemon: %+v", r)
	}
	testkit.Must(c.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: s}))(t)
	testkit.Eventually(t, "the pod of the session is removed", func() bool { return pods() == "" })
}

// kubectl is the program, for the administrator of a cluster.
type kubectl struct {
	*testing.T
	program string
	env     []string
}

func (k kubectl) command(args ...string) *exec.Cmd {
	cmd := exec.Command(k.program, args...)
	cmd.Env = k.env
	return cmd
}

// run returns what kubectl prints.
func (k kubectl) run(args ...string) string {
	k.Helper()
	cmd := k.command(args...)
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		k.Fatalf("kubectl %s: %s\n%s", strings.Join(args, " "), err, failure.String())
	}
	return string(out)
}

// forward forwards a port of this machine to the daemon in the cluster until the result is called.
func (k kubectl) forward(port string) (stop func()) {
	k.Helper()
	cmd := k.command("-n", "trl", "port-forward", "--address", "127.0.0.1", "service/trl", port+":7331")
	out := testkit.Must(cmd.StdoutPipe())(k)
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(line, "Forwarding") {
		k.Errorf("kubectl port-forward: %q, %v", line, err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
