//go:build !embed_runners

package host

import "io"

// embedded returns the compressed runner for a platform: none in this build.
func embedded(_, _ string) io.ReadSeeker { return nil }
