package grpc_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestClusterDaemon: a daemon starts with the arguments and the configuration of dist/kubernetes/daemon.yaml, and
// serves gRPC with TLS and the token of its variable.
func TestClusterDaemon(t *testing.T) {
	text, err := os.ReadFile("../../dist/kubernetes/daemon.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config string
	var args []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o struct {
			Kind string
			Data map[string]string
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		body, err := yaml.YAMLToJSON([]byte(document))
		if err == nil {
			err = json.Unmarshal(body, &o)
		}
		if err != nil {
			t.Fatal(err)
		}
		switch o.Kind {
		case "ConfigMap":
			config = o.Data["config.toml"]
		case "Deployment":
			args = o.Spec.Template.Spec.Containers[0].Args
		}
	}
	if len(args) == 0 || args[0] != "serve" || config == "" {
		t.Fatalf("args %q, configuration %q", args, config)
	}
	ours := newIssuer(t, "ours")
	server := ours.issue("trl", time.Hour)
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("0.0.0.0:7331", "0.0.0.0:0", "/tls/tls.crt", server.cert, "/tls/tls.key", server.key, "/state", filepath.Join(dir, "state"), "/etc/trl/config.toml", file)
	for i := range args {
		args[i] = here.Replace(args[i])
	}
	d := trltest.Start(t, trltest.Args(args[1:]...), trltest.Env("TRL_AUTH_TOKEN="+fullToken))
	address := d.GRPC(t)
	port := address[strings.LastIndexByte(address, ':'):]
	c, err := client.DialGRPC(timeout(t), "grpcs://127.0.0.1"+port, client.GRPCOptions{Token: fullToken, CAFile: ours.file})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
}
