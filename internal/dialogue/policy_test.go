package dialogue

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

func TestPolicy(t *testing.T) {
	policy := &api.DialoguePolicy{Rules: []api.DialogueRule{
		{Tool: "Bash", Pattern: "rm *", Action: "deny"},
		{Tool: "Bash", Pattern: "git *", Action: "allow"},
		{Tool: "Bash", Pattern: "make", Action: "allow"},
		{Tool: "Write", Pattern: "/etc/*", Action: "ask"},
		{Tool: "Write", Action: "allow"},
		{Tool: "mcp__*", Pattern: "*", Action: "allow"},
	}}
	for _, c := range []struct{ tool, subject, want string }{
		{"Bash", "git status", "allow"},
		{"Bash", "git", ""},
		{"Bash", "make", "allow"},
		{"Bash", "make install", ""},
		{"Bash", "git status; rm -rf /", ""},
		{"Bash", "git status && x", ""},
		{"Bash", "git log $(x)", ""},
		{"Bash", "git log `x`", ""},
		{"Bash", "git log > x", ""},
		{"Bash", "git log\nx", ""},
		{"Bash", "rm x; y", "deny"},
		{"Write", "/etc/passwd", ""},
		{"Write", "/tmp/x", "allow"},
		{"mcp__a__b", "x;y", "allow"},
		{"bash", "make", ""},
	} {
		got := ""
		if rule := decide(policy, api.DialogueRequest{Kind: "permission", Tool: c.tool, Subject: c.subject}); rule != nil {
			got = rule.Action
		}
		if got != c.want {
			t.Errorf("%s %q: %q, want %q", c.tool, c.subject, got, c.want)
		}
	}
	if decide(policy, api.DialogueRequest{Kind: "question", Tool: "Write"}) != nil || decide(nil, api.DialogueRequest{Kind: "permission"}) != nil {
		t.Error("a question, or a request without policy, was answered")
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		pattern, s, forbidden string
		want                  bool
	}{
		{"", "", "", true}, {"", "x", "", false}, {"*", "", "", true}, {"a*c", "abbc", "", true}, {"a*c", "abb", "", false},
		{"*a*a*a*a*b", strings.Repeat("a", 5000), "", false}, {"a;*", "a;b", ";", true}, {"a*", "a;b", ";", false}, {"*;*", "a;b", ";", true},
	} {
		if got := fits(c.pattern, c.s, c.forbidden); got != c.want {
			t.Errorf("fits(%q, %.20q, %q) = %v", c.pattern, c.s, c.forbidden, got)
		}
	}
}
