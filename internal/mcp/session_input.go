package mcp

import "github.com/trl-dev/trl/api"

// sessionInput describes the session that a tool creates, or finds.
type sessionInput struct {
	Shell   string `json:"shell,omitempty" jsonschema:"of a new session, such as zsh"`
	Runtime string `json:"runtime,omitempty" jsonschema:"of a new session: host, docker:IMAGE, ssh:HOST"`
	Isolate string `json:"isolate,omitempty" jsonschema:"of a new session: workspace, read-only"`
}

// limitsInput bounds what a command, a terminal or an agent may use.
type limitsInput struct {
	MemoryBytes int64   `json:"memory_bytes,omitempty" jsonschema:"limit"`
	CPUs        float64 `json:"cpus,omitempty"`
	Pids        int64   `json:"pids,omitempty"`
}

// limits returns the limits of a command; nil for none.
func (in limitsInput) limits() *api.CommandLimits {
	var l api.CommandLimits
	if in.MemoryBytes != 0 {
		l.MemoryBytes = &in.MemoryBytes
	}
	if in.CPUs != 0 {
		l.CPUs = &in.CPUs
	}
	if in.Pids != 0 {
		l.Pids = &in.Pids
	}
	if l == (api.CommandLimits{}) {
		return nil
	}
	return &l
}

// sessionLimits returns the limits of a session; nil for none.
func (in limitsInput) sessionLimits() *api.Limits {
	l := in.limits().Of()
	if l.IsZero() {
		return nil
	}
	return &l
}

// isolation returns the isolation of a new session; nil for none. The profile of the configuration
// counts: a model that is isolated chooses no other.
func (c *conn) isolation(profile string) (*api.Isolation, error) {
	switch {
	case c.Isolate == "" && profile == "":
		return nil, nil
	case c.Isolate == "":
		return &api.Isolation{Profile: profile}, nil
	case profile != "" && profile != c.Isolate:
		return nil, api.InvalidParam("isolate", "every new session has the isolation %q here; leave it out", c.Isolate)
	}
	return &api.Isolation{Profile: c.Isolate}, nil
}
