//go:build !embed_runners

package host

// embedded returns the compressed runner for a platform: none in this build.
func embedded(_, _ string) []byte { return nil }
