package repo_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

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
