package cli

import (
	"slices"
	"testing"
)

func TestCallerEnvLeavesOutWhatCannotTravel(t *testing.T) {
	t.Setenv("TRLCLI_OK", "yes")
	t.Setenv("BASH_FUNC_f%%", "() { :; }")
	t.Setenv("TRLCLI_BYTES", "\xff\xfe")
	t.Setenv("TRL_SESSION_ID", "s-0123456789")
	t.Setenv("PWD", "/")
	env := callerEnv()
	if env["TRLCLI_OK"] != "yes" {
		t.Error("TRLCLI_OK is missing")
	}
	for _, key := range []string{"BASH_FUNC_f%%", "TRLCLI_BYTES", "TRL_SESSION_ID", "PWD"} {
		if _, ok := env[key]; ok {
			t.Errorf("%s is there", key)
		}
	}
}

func TestDaemonEnvIsNobodysInParticular(t *testing.T) {
	got := daemonEnv([]string{"HOME=/h", "PATH=/bin", "LC_ALL=C", "XDG_RUNTIME_DIR=/r", "DOCKER_HOST=unix:///d", "KUBECONFIG=/k",
		"SSH_AUTH_SOCK=/a", "KUBERNETES_SERVICE_HOST=10.0.0.1", "TRL_SOCKET_PATH=/s", "SSH_CONNECTION=1 2 3 4", "KUBERNETES_PORT=x", "AWS_SECRET_ACCESS_KEY=x", "FOO=bar", "TRL_SESSION_ID=s-0123456789", "HOMEY=1"})
	want := []string{"HOME=/h", "PATH=/bin", "LC_ALL=C", "XDG_RUNTIME_DIR=/r", "DOCKER_HOST=unix:///d", "KUBECONFIG=/k", "SSH_AUTH_SOCK=/a", "KUBERNETES_SERVICE_HOST=10.0.0.1", "TRL_SOCKET_PATH=/s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
