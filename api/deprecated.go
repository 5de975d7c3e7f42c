package api

// Deprecation is a word of API version 1 that the daemon still accepts, and that a later
// release removes.
type Deprecation struct {
	Field   string   // the type and its field on the wire, such as ExecWaitParams.timeout_ms
	Value   string   // the deprecated value of the field; empty if the whole field is deprecated
	Methods []string // the methods that accept the word
	Use     string   // the replacement
	Since   string   // the release that deprecated the word
	Removed string   // the release that removes it
}

// Deprecations lists every deprecated word. The documents, OpenAPI and the SDKs are
// generated from it.
var Deprecations = []Deprecation{
	{Field: "SessionWaitParams.idle_ms", Methods: []string{"session.wait"}, Use: "idle_s", Since: "0.1.0", Removed: "0.2.0"},
	{Field: "SessionWaitParams.timeout_ms", Methods: []string{"session.wait"}, Use: "timeout_s", Since: "0.1.0", Removed: "0.2.0"},
	{Field: "ExecWaitParams.idle_ms", Methods: []string{"exec.wait"}, Use: "idle_s", Since: "0.1.0", Removed: "0.2.0"},
	{Field: "ExecWaitParams.timeout_ms", Methods: []string{"exec.wait"}, Use: "timeout_s", Since: "0.1.0", Removed: "0.2.0"},
	{Field: "ExecWaitParams.until", Value: "idle_ms", Methods: []string{"exec.wait"}, Use: "idle_s", Since: "0.1.0", Removed: "0.2.0"},
	{Field: "ExecParams.stdin", Value: "open", Methods: []string{"exec.start", "exec.stream"}, Use: "stdin_open: true", Since: "0.1.0", Removed: "0.2.0"},
}
