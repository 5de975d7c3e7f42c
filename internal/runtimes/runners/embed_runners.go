//go:build embed_runners

package runners

import (
	"embed"
	"io"
	"runtime"
	"strings"
)

// files are the compressed runners, one for each platform that this program serves, and the program
// for Kubernetes of this platform. They are built into this directory before this program is.
//
//go:embed trl-*.gz
var files embed.FS

// embedded returns the compressed runner for a platform, or nil.
func embedded(goos, goarch string) io.ReadSeeker {
	return open(Name, goos, goarch)
}

// embeddedKube returns the compressed program for Kubernetes, or nil.
func embeddedKube() io.ReadSeeker { return open(KubeName, runtime.GOOS, runtime.GOARCH) }

func open(name, goos, goarch string) io.ReadSeeker {
	packed, err := files.Open(name + "-" + goos + "-" + goarch + ".gz")
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
		if name, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".gz"), Name+"-"); ok {
			list = append(list, strings.Replace(name, "-", "/", 1))
		}
	}
	return list
}
