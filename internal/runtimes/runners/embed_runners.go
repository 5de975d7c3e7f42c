//go:build embed_runners

package runners

import (
	"embed"
	"io"
	"strings"
)

// files are the compressed runners, one for each platform that this program serves. They are built
// into this directory before the program is.
//
//go:embed trl-runner-*.gz
var files embed.FS

// embedded returns the compressed runner for a platform, or nil.
func embedded(goos, goarch string) io.ReadSeeker {
	packed, err := files.Open(Name + "-" + goos + "-" + goarch + ".gz")
	if err != nil {
		return nil
	}
	return packed.(io.ReadSeeker) // as package embed promises
}

// platforms lists the platforms that have an embedded runner, such as linux/amd64.
func platforms() []string {
	entries, _ := files.ReadDir(".")
	var list []string
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimPrefix(e.Name(), Name+"-"), ".gz")
		list = append(list, strings.Replace(name, "-", "/", 1))
	}
	return list
}
