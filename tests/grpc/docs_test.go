package grpc_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/trl-dev/trl/tests/trltest"
)

// TestDocs types every command of the page.
func TestDocs(t *testing.T) {
	d := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0"))
	trltest.Page(t, "../../docs/grpc.md", d.Token(t), strings.NewReplacer("grpc://127.0.0.1:7331", d.GRPC(t)))
}

// TestDocsShowTheProtocol compares the page with the file that the code is made from.
func TestDocsShowTheProtocol(t *testing.T) {
	words := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		without := regexp.MustCompile(`(?m)^\s*//.*$`).ReplaceAllString(string(text), "")
		return strings.Join(strings.Fields(without), " ")
	}
	_, shown, _ := strings.Cut(words("../../docs/grpc.md"), "```proto ")
	shown, _, _ = strings.Cut(shown, " ```")
	if proto := words("../../api/proto/trl/v1/trl.proto"); !strings.HasSuffix(proto, shown) || !strings.HasPrefix(shown, "service TRL {") {
		t.Errorf("the page shows %s\nthe file has %s", shown, proto)
	}
}
