package dialogue

import (
	"encoding/json"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestPolicySpellings: another spelling of a path or an address does not get around a rule that
// denies or asks, and no rule allows more because of it.
func TestPolicySpellings(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for _, c := range []struct {
		kind, pattern, subject string
		deny                   bool
	}{
		// Relative paths, in the directory /w/x.
		{"path", "/etc/*", "../../etc/shadow", true},
		{"path", "/etc/*", "a/../../../etc/shadow", true},
		{"path", "/etc/*", "../../etc", true},
		{"path", "/w/x/*", ".", true},
		{"path", "/w/x/*", "a", true},
		{"path", "/w/x/*", "../a", false},
		{"path", "/etc/*", "etc/shadow", false},
		{"path", "secrets/*", "/w/x/secrets/a", true},
		{"path", "secrets/*", "/w/x/../x/secrets/a", true},
		{"path", "secrets/*", "/w/secrets/a", false},
		{"", "/etc/*", "../../etc/shadow", true},
		{"", "/w/x/*", "some words a/b", false},
		{"", "/w/x/*", "weather", false},
		{"command", "/etc/*", "../../etc/shadow", false},
		// The home directory, and blanks, which agents ignore.
		{"path", "/home/me/.ssh/*", "~/.ssh/id_rsa", true},
		{"path", "~/.ssh/*", "/home/me/.ssh/id_rsa", true},
		{"path", "~/.ssh/*", "~/.ssh/../.ssh/id_rsa", true},
		{"path", "~/.ssh/*", "/home/me/.sshx", false},
		{"path", "/home/me/*", "~you/x", false},
		{"path", "/etc/*", " /etc/shadow", true},
		{"path", "/etc/*", "\t../../etc/shadow", true},
		{"path", "/etc/shadow", "/etc/shadow ", true},
		// File URLs.
		{"path", "/etc/*", "file:///etc/shadow", true},
		{"path", "/etc/*", "file:/etc/shadow", true},
		{"path", "/etc/*", "FILE://localhost/etc/shadow", true},
		{"path", "/etc/*", "file:///../etc/shadow", true},
		{"path", "/etc/*", "file:///x/../../etc/shadow", true},
		{"path", "/etc/shadow", "file:///etc/shadow?x#y", true},
		{"path", "/etc/*", "file:///%65tc/shadow", true},
		{"path", "/etc/*", "file:../../etc/shadow", true},
		{"path", "/etc/*", "file:///src/etc/shadow", false},
		{"path", "file:///etc/*", "/etc/shadow", true},
		{"address", "/etc/*", "file:///etc/shadow", true},
		{"", "/etc/*", "file:///etc/shadow", true},
		{"path", "/etc/*", "fil", false},
		// Addresses.
		{"address", "https://evil.org/*", "HTTPS://Evil.ORG/x", true},
		{"address", "https://Evil.org/*", "https://evil.org/x", true},
		{"address", "*EVIL.org/*", "https://evil.ORG/x", true},
		{"address", "*://Evil.org/*", "https://evil.ORG/x", true},
		{"address", "https://evil.org/*", "https://evil.org:443/x", true},
		{"address", "https://evil.org/*", "https://evil.org:0443/x", true},
		{"address", "https://evil.org/*", "https://evil.org:/x", true},
		{"address", "http://evil.org/*", "http://evil.org:80/x", true},
		{"address", "http://evil.org/*", "http://evil.org:443/x", false},
		{"address", "https://evil.org/*", "https://evil.org:8443/x", false},
		{"address", "https://evil.org:443/*", "https://evil.org/x", true},
		{"address", "https://evil.org:*/*", "https://evil.org/x", true},
		{"address", "*evil.org:443/*", "https://evil.org/x", true},
		{"address", "https://evil.org:8443/*", "https://EVIL.org.:8443/x", true},
		{"address", "https://evil.org/*", "https://me:secret@evil.org/x", true},
		{"address", "https://evil.org/*", "https://good.org@evil.org/x", true},
		{"address", "https://good.org/*", "https://good.org@evil.org/x", false},
		{"address", "https://evil.org/*", `https://evil.org\@good.org/x`, true},
		{"address", "https://good.org/*", `https://evil.org\@good.org/x`, true},
		{"address", "https://evil.org/*", "https://evil.org./x", true},
		{"address", "https://evil.org/*", "https://evil.org.:443/x", true},
		{"address", "https://evil.org/*", "https://evil.org?x", true},
		{"address", "https://evil.org/*", `https:\\evil.org\x`, true},
		{"address", "https://evil.org/*", "https:evil.org/x", true},
		{"address", "https://evil.org/*", "ht\ntps://evil.org/x", true},
		{"address", "https://evil.org/*", "https://%65vil.org/x", true},
		{"address", "https://evil.org/*", "https://EVIL.org/a/../b", true},
		{"address", "https://evil.org/Docs/*", "https://EVIL.org/docs/x", false},
		{"address", "https://evil.org/Docs/*", "https://EVIL.org/Docs/x", true},
		{"address", "https://[::1]/*", "https://[::1]:443/x", true},
		{"address", "https://[::1]:*/*", "https://[::1]/x", true},
		{"address", "https://evil.org/*", "https://not-evil.org/x", false},
		{"", "https://evil.org/*", "HTTPS://evil.org/x", true},
	} {
		r := api.DialogueRequest{Kind: "permission", Tool: "x", Subject: c.subject, SubjectKind: c.kind, SubjectSource: "input"}
		want := "allow"
		if c.deny {
			want = "deny"
		}
		rules := &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "x", Pattern: c.pattern, Action: "deny"}, {Tool: "x", Action: "allow"}}}
		if got := decided(rules, r, "/w/x"); got != want {
			t.Errorf("deny %s: %s %q: %s", c.pattern, c.kind, c.subject, got)
		}
		if rules.Rules[0].Action = "ask"; (decided(rules, r, "/w/x") == "") != c.deny {
			t.Errorf("ask %s: %s %q", c.pattern, c.kind, c.subject)
		}
		rule := api.DialogueRule{Tool: "x", Pattern: c.pattern, Action: "allow"}
		if got := decided(&api.DialoguePolicy{Rules: []api.DialogueRule{rule}}, r, "/w/x"); (got == "allow") != describes(rule, c.kind, c.subject) {
			t.Errorf("allow %s: %s %q: %q", c.pattern, c.kind, c.subject, got)
		}
	}
}

// TestPolicySpellingsInText: other spellings count also where a rule searches the texts of a request,
// and in each of several paths.
func TestPolicySpellingsInText(t *testing.T) {
	type request = api.DialogueRequest
	rules := rulesOf("deny * /etc/*\ndeny * https://evil.org/*\nallow * *")
	for name, c := range map[string]struct {
		request request
		want    string
	}{
		"title":          {request{Tool: "read", Subject: "Read ../etc/shadow", SubjectSource: "title"}, "deny"},
		"title, address": {request{Tool: "fetch", Subject: "Fetch `https://EVIL.org:443/x`.", SubjectSource: "title"}, "deny"},
		"title, neither": {request{Tool: "read", Subject: "Read etc/shadow and/or x", SubjectSource: "title"}, "allow"},
		"field":          {request{Tool: "read", Input: json.RawMessage(`{"x":"../etc/shadow"}`)}, "deny"},
		"MCP":            {request{Tool: "mcp__fs__x", Subject: "/src/x", SubjectKind: "path", SubjectSource: "input", Input: json.RawMessage(`{"path":"/src/x","to":"../etc/x"}`)}, ""},
		"several":        {request{Tool: "edit", Subject: "./", SubjectKind: "path", SubjectSource: "locations", Paths: []string{"a", "../etc/shadow"}}, "deny"},
		"several URLs":   {request{Tool: "edit", Subject: "/", SubjectKind: "path", SubjectSource: "locations", Paths: []string{"/src/a", "file:/etc/shadow"}}, "deny"},
	} {
		c.request.Kind = "permission"
		if got := decided(rules, c.request, "/w"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// The agent's own spelling reaches the rules.
	for _, call := range []string{
		`"kind":"read","rawInput":{"path":"../etc/shadow"}`,
		`"kind":"read","rawInput":{"path":"file:///../etc/shadow"}`,
		`"kind":"read","locations":[{"path":"file:///x/../../etc/shadow"}]`,
		`"kind":"read","locations":[{"path":"../etc/shadow"},{"path":"a"}]`,
	} {
		if got := decided(rules, acpRequest(t, call), "/w"); got != "deny" {
			t.Errorf("%s: %q", call, got)
		}
	}
}

// FuzzSpellings: a rule for one spelling of a path or an address denies the others.
func FuzzSpellings(f *testing.F) {
	f.Add("/etc/shadow", "evil.org")
	f.Add("a/../b", "")
	f.Fuzz(func(t *testing.T, p, host string) {
		for _, kind := range []string{"path", "address", ""} {
			for _, subject := range []string{p, host, "file://" + p, "https://" + host} {
				if !matches(api.DialogueRule{Pattern: subject, Action: "deny"}, kind, subject, "/w") {
					t.Errorf("%q does not deny itself as %q", subject, kind)
				}
				allow := api.DialogueRule{Pattern: "/src/*", Action: "allow"}
				if matches(allow, kind, subject, "/src") != describes(allow, kind, subject) {
					t.Errorf("%q is allowed", subject)
				}
			}
		}
	})
}
