package repo_test

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/version"
)

// TestVersionHasOnePlace: binary and SDKs have the version of internal/version. The files of the SDKs
// that state it are generated, the Makefile reads it, and no other source states it.
func TestVersionHasOnePlace(t *testing.T) {
	number, _, _ := strings.Cut(version.Version, "-")
	states := regexp.MustCompile("[\"'`]v?" + regexp.QuoteMeta(number) + "[^\"'` ]*[\"'`]")
	source := "internal/version/version.go"
	places := []string{source, "sdk/python/pyproject.toml", "sdk/typescript/package-lock.json", "sdk/typescript/package.json"}
	var found []string
	sourceFiles(t, func(file string) {
		top, _, _ := strings.Cut(file, "/")
		ext := path.Ext(file)
		switch {
		case !slices.Contains([]string{"cmd", "client", "dist", "internal", "sdk", "tools"}, top),
			!slices.Contains([]string{".go", ".json", ".mjs", ".py", ".rb", ".sh", ".toml", ".ts"}, ext),
			strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/test"):
		case states.MatchString(read(t, file)):
			found = append(found, file)
		}
	})
	slices.Sort(found)
	if !slices.Equal(found, places) {
		t.Errorf("the version %s is stated in %v, want %v", number, found, places)
	}
	if !strings.Contains(read(t, "Makefile"), source) {
		t.Errorf("Makefile: does not read the version from %s", source)
	}
}

// TestBadgesAreTrue compares the line below the title of the README with the sources of its claims.
func TestBadgesAreTrue(t *testing.T) {
	_, line, _ := strings.Cut(read(t, "README.md"), "\n\n")
	line, _, _ = strings.Cut(line, "\n\n")
	licence, _, _ := strings.Cut(read(t, "LICENSE"), "\n")
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))[1]
	for _, want := range []string{
		"[" + licence + "](LICENSE)", "[Go " + language + "](go.mod)", fmt.Sprintf("[API version %d](docs/api.md)", api.Version),
	} {
		if !strings.Contains(line, want) {
			t.Errorf("README.md: %s: does not say %s", line, want)
		}
	}
	const platforms = `{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}`
	if !strings.Contains(line, "[Linux, amd64 and arm64](docs/releasing.md) · [macOS: built, untested]") || !strings.Contains(read(t, "tools/release/main.go"), platforms) {
		t.Errorf("README.md: %s: tools/release/main.go has other platforms", line)
	}
}
