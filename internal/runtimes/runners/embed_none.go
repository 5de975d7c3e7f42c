//go:build !embed_runners

package runners

import "io"

// embedded returns the compressed runner for a platform: none in this build.
func embedded(_, _ string) io.ReadSeeker { return nil }

// embeddedKube returns nil too.
func embeddedKube() io.ReadSeeker { return nil }

// platforms lists the platforms that have an embedded runner: none in this build.
func platforms() []string { return nil }
