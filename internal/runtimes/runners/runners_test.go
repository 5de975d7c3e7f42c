package runners

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runner"
)

func TestFind(t *testing.T) {
	if Name != runner.Name {
		t.Errorf("the name %q is not that of the runner, %q", Name, runner.Name)
	}
	want := map[string]bool{runtime.GOOS + "/" + runtime.GOARCH: true}
	for _, platform := range platforms() {
		want[platform] = true
	}
	for platform := range want {
		goos, goarch, _ := strings.Cut(platform, "/")
		p, err := Find(goos, goarch)
		if err != nil {
			t.Error(err)
			continue
		}
		content, err := p.Open()
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		n, err := io.Copy(sum, content)
		if err != nil || n != p.Size || n == 0 || hex.EncodeToString(sum.Sum(nil)) != p.SHA256 {
			t.Errorf("%s: %+v, read %d, %v", platform, p, n, err)
		}
		content.Close()
		if again, err := Find(goos, goarch); err != nil || again != p || !strings.HasPrefix(p.FileName(), Name+"-") {
			t.Errorf("%s: %+v, then %+v, %v", platform, p, again, err)
		}
	}
	if _, err := Find("plan9", "mips"); api.AsError(err).Code != api.CodeRuntimeUnavailable || !strings.Contains(err.Error(), "plan9/mips") || !strings.Contains(err.Error(), "make build EMBED=all") {
		t.Errorf("got %v", err)
	}
}
