package dialogue

import (
	"path"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
)

// decide returns the first rule of a policy that matches a request; nil if none does, or if a
// person must decide.
//
// A rule that denies or asks and has a pattern cannot be compared with an unknown subject. After
// such a rule, nothing allows the request: a person decides. The same holds if the pattern occurs in
// another field of the input of an MCP server's tool, because TRL does not know which field such a
// tool uses, and if the request is for a directory in which such a rule may match a file. An unknown
// tool may be the tool of any such rule: then the pattern decides or, if the rule has none, a person
// does.
//
// dir is the directory that the agent works in, with which relative paths begin; empty if it is unknown.
func decide(p *api.DialoguePolicy, r api.DialogueRequest, dir string) *api.DialogueRule {
	if p == nil || r.Kind != "permission" { // a person answers questions and plans
		return nil
	}
	doubt := false
	for i, rule := range p.Rules {
		named := fits(rule.Tool, r.Tool, "")
		if !named && (rule.Action == "allow" || !toolUnknown(r)) {
			continue
		}
		if !concerns(rule, r, dir) {
			doubt = doubt || rule.Action != "allow" && (r.Subject == "" || grantsMore(rule, r) || strings.HasPrefix(r.Tool, mcpPrefix) && inInput(rule, r, dir))
			continue
		}
		if !named && anything(rule.Pattern) {
			doubt = true
			continue
		}
		if rule.Action == "ask" || rule.Action == "allow" && doubt {
			return nil
		}
		return &p.Rules[i]
	}
	return nil
}

// mcpPrefix begins the names of the tools of MCP servers.
const mcpPrefix = "mcp__"

// toolUnknown reports whether the agent did not say which tool it wants to use. In ACP the
// name and the kind of a tool are optional.
func toolUnknown(r api.DialogueRequest) bool { return r.Tool == "" || r.Tool == "other" }

// grantsMore reports whether a request is for a whole directory, as Codex sends it, and a rule may match
// a path in that directory. Of a pattern that is no absolute path, this is not known.
func grantsMore(rule api.DialogueRule, r api.DialogueRequest) bool {
	if r.SubjectKind != "path" || r.SubjectSource != "request" || !strings.HasSuffix(r.Subject, "/") {
		return false
	}
	pattern := fromHome(rule.Pattern)
	if !path.IsAbs(pattern) {
		return true
	}
	fixed, _, open := strings.Cut(cleanPath(pattern), "*")
	return strings.HasPrefix(fixed, r.Subject) || open && strings.HasPrefix(r.Subject, fixed)
}

// anything reports whether a pattern matches every subject.
func anything(pattern string) bool { return pattern == "" || pattern == "*" }

// concerns reports whether the pattern of a rule matches a request. If the subject is unknown, or
// only text that the agent wrote for people, a rule that denies or asks looks for its pattern in
// all texts of the request. It does so too if the tool is unknown, because then any of the texts
// may be the one that the tool uses.
func concerns(rule api.DialogueRule, r api.DialogueRequest, dir string) bool {
	switch {
	case anything(rule.Pattern):
		return true
	case covers(rule, r, dir):
		return true
	case rule.Action == "allow" || r.Subject != "" && !r.SubjectGuessed() && !toolUnknown(r):
		return false
	}
	for _, text := range []string{r.Subject, r.Title} {
		if mentions(rule.Pattern, text) || mentionsPlace(rule, text, dir) {
			return true
		}
	}
	return inInput(rule, r, dir)
}

// covers reports whether the pattern of a rule matches the subject and the other paths of a request. A
// rule that allows must match all of them: the subject of several files is only the directory that
// contains them. Any other rule decides if it matches one. The files beside a command or an address
// are not what a rule allows, so only the other rules look at them. A rule that allows ignores a
// relative path if the request names the same file with its absolute path too.
func covers(rule api.DialogueRule, r api.DialogueRequest, dir string) bool {
	allow := rule.Action == "allow"
	if (r.Subject != "" && matches(rule, r.SubjectKind, r.Subject, dir)) != allow {
		return !allow
	}
	if allow && (r.SubjectKind == "command" || r.SubjectKind == "address") {
		return true
	}
	for _, p := range r.Paths {
		if full := absolute(p, dir); allow && full != p && (full == r.Subject || slices.Contains(r.Paths, full)) {
			continue
		}
		if matches(rule, "path", p, dir) != allow {
			return !allow
		}
	}
	return allow
}

// absolute returns a path that is relative to dir as an absolute path, without . and .. elements.
func absolute(p, dir string) string {
	if dir == "" || path.IsAbs(p) {
		return p
	}
	return path.Join(dir, p)
}

// inInput reports whether the pattern of a rule matches a part of a text in the input of a tool. The
// text of a subject that is certain must match as a whole: /etc/* is not about /work/etc/x.
func inInput(rule api.DialogueRule, r api.DialogueRequest, dir string) bool {
	certain := r.Subject != "" && !r.SubjectGuessed() && !toolUnknown(r)
	return slices.ContainsFunc(inputTexts(r.Input), func(text string) bool {
		if certain && (text == r.Subject || slices.Contains(r.Paths, text)) {
			return matches(rule, "", text, dir)
		}
		return mentions(rule.Pattern, text) || respelled(rule, "", text, dir)
	})
}

// joins are the characters that combine commands or redirect output: "git *" must not allow "git
// status; rm -rf ~".
const joins = "\n\r;|&`$()<>"

// describes reports whether the pattern of a rule matches a subject. The same thing can be written
// in several ways: a rule that allows must match all of them, any other rule only one. A subject of
// another kind may be a command or a path.
func describes(rule api.DialogueRule, kind, subject string) bool {
	if anything(rule.Pattern) {
		return true
	}
	allow, forbidden := rule.Action == "allow", ""
	ways := []func(string) string{strings.Clone}
	if kind != "path" && kind != "address" {
		ways = append(ways, singleBlanks)
		if allow {
			forbidden = joins
		} else if runs(rule.Pattern, subject) {
			return true
		}
	}
	if kind != "command" {
		ways = append(ways, cleanPath)
		if !allow {
			ways = append(ways, directory)
		} else if !strings.HasPrefix(cleanPath(rule.Pattern), upwards(cleanPath(subject))) {
			return false // * stands for names below a directory, not for ..
		}
	}
	if allow && kind == "address" && !fits(site(rule.Pattern), site(subject), "@") {
		return false // * in a host name must not match a part of a path
	}
	for _, way := range ways {
		if fits(way(rule.Pattern), way(subject), forbidden) != allow {
			return !allow
		}
	}
	return allow
}

// singleBlanks returns a command without redundant blanks.
func singleBlanks(command string) string { return strings.Join(strings.Fields(command), " ") }

// cleanPath returns a path or an address without . and .. elements. A slash at its end stays: it
// stands for everything in a directory.
func cleanPath(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// site returns the part of an address before its path.
func site(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address
	}
	if end := strings.IndexAny(rest, `/?#\`); end >= 0 {
		rest = rest[:end]
	}
	return scheme + "://" + rest
}

// directory returns the directory of a pattern such as /etc/*: a rule that denies the files must
// also deny a search of the directory itself.
func directory(p string) string {
	return strings.TrimSuffix(strings.TrimSuffix(cleanPath(p), "*"), "/")
}

// upwards returns the ../ elements at the start of a clean path.
func upwards(clean string) string {
	below := clean
	for strings.HasPrefix(below, "../") {
		below = below[len("../"):]
	}
	if below == ".." {
		return clean
	}
	return strings.TrimSuffix(clean, below)
}

// fits reports whether a pattern matches s; * stands for any text without the forbidden characters.
func fits(pattern, s, forbidden string) bool {
	fit := make([]bool, len(s)+1) // fit[i]: the pattern so far matches s[:i]
	fit[0] = true
	match(fit, pattern, s, forbidden)
	return fit[len(s)]
}

// match replaces the positions in s where a pattern may start by those where it may end.
func match(fit []bool, pattern, s, forbidden string) {
	for _, p := range []byte(pattern) {
		if p == '*' {
			for i := range len(s) {
				fit[i+1] = fit[i+1] || fit[i] && strings.IndexByte(forbidden, s[i]) < 0
			}
			continue
		}
		for i := len(s); i > 0; i-- {
			fit[i] = fit[i-1] && s[i-1] == p
		}
		fit[0] = false
	}
}
