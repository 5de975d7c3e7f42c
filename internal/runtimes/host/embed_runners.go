//go:build embed_runners

package host

import (
	"embed"
	"fmt"
	"io"
)

// runners holds the compressed runner of each platform that this program serves.
// They are built into this directory before the program is.
//
//go:embed runners/trl-runner-*.gz
var runners embed.FS

// embedded returns the compressed runner for a platform, or nil.
func embedded(goos, goarch string) io.ReadSeeker {
	packed, err := runners.Open(fmt.Sprintf("runners/trl-runner-%s-%s.gz", goos, goarch))
	if err != nil {
		return nil
	}
	return packed.(io.ReadSeeker) // as package embed promises
}
