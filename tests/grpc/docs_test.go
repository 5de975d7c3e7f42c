package grpc_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// grpcurlVersion is the version of grpcurl that tests/setup.sh installs.
const grpcurlVersion = "1.9.3"

// TestDocs types every command of the page. Another daemon is the one on box.example; the reader's token is
// for both.
func TestDocs(t *testing.T) {
	ours := newIssuer(t, "ours")
	server, me := ours.issue("box.example", time.Hour), ours.issue("me", time.Hour)
	tokens := trltest.Args("--grpc", "127.0.0.1:0", "--token-file", tokenFile(t))
	d, box := trltest.Start(t, tokens), trltest.Start(t, tokens, trltest.Args("--tls-cert", server.cert, "--tls-key", server.key, "--grpc-client-ca", ours.file))
	var has []string
	grpcurl := filepath.Join(testkit.Must(os.UserCacheDir())(t), "trl-test", "grpcurl-"+grpcurlVersion, "grpcurl")
	if _, err := os.Stat(grpcurl); err == nil {
		has = append(has, "grpcurl")
	}
	trltest.Page(t, "../../docs/grpc.md", fullToken, strings.NewReplacer("grpc://127.0.0.1:7331", d.GRPC(t),
		"--grpc 127.0.0.1:7331", "--grpc 127.0.0.1:0", "--grpc 0.0.0.0:7331", "--grpc 127.0.0.1:0",
		"grpcs://box.example:7331", box.GRPC(t), "=ca.pem", "="+ours.file, "=me.pem", "="+me.cert, "=me.key", "="+me.key,
		"grpcurl -plaintext", grpcurl+" -plaintext", "127.0.0.1:7331", strings.TrimPrefix(d.GRPC(t), "grpc://")), has...)
}

// TestDocsShowTheProtocol compares the page with the file that the code is made from.
func TestDocsShowTheProtocol(t *testing.T) {
	words := func(text string) string {
		without := regexp.MustCompile(`(?m)^\s*//.*$`).ReplaceAllString(text, "")
		return strings.Join(strings.Fields(without), " ")
	}
	shown := words(trltest.OneSnippet(t, "docs/grpc.md", "## The protocol", "proto"))
	file := string(testkit.Must(os.ReadFile("../../api/proto/trl/v1/trl.proto"))(t))
	if proto := words(file); !strings.HasSuffix(proto, shown) || !strings.HasPrefix(shown, "service TRL {") {
		t.Errorf("the page shows %s\nthe file has %s", shown, proto)
	}
}
