package rpc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGeneratedFilesAreFresh generates the files again and compares, if protoc is installed.
func TestGeneratedFilesAreFresh(t *testing.T) {
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	args := []string{"-I", "../../api/proto/trl/v1", "trl.proto"}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		path, err := exec.Command("go", "tool", "-n", plugin).Output()
		if err != nil {
			t.Fatalf("%s: %s", plugin, err)
		}
		kind := strings.TrimPrefix(plugin, "protoc-gen-")
		args = append(args, "--plugin="+plugin+"="+strings.TrimSpace(string(path)), "--"+kind+"_out="+dir, "--"+kind+"_opt=paths=source_relative")
	}
	args = append(args, "--go-grpc_opt=require_unimplemented_servers=false")
	if out, err := exec.Command("protoc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	version := regexp.MustCompile(`(?m)^//.*\bprotoc +v.*$`) // another version of protoc generates the same
	for _, name := range []string{"trl.pb.go", "trl_grpc.pb.go"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if version.ReplaceAllString(string(got), "") != version.ReplaceAllString(string(want), "") {
			t.Errorf("%s: is not what trl.proto says; run go generate ./internal/rpc", name)
		}
	}
}
