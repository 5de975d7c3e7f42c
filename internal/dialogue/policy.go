package dialogue

import (
	"path"
	"strings"

	"github.com/trl-dev/trl/api"
)

// decide is the first rule of a policy that fits a request; nil when none does, or the
// request is left to people.
//
// A rule that denies or asks, and has a pattern, cannot be compared with a subject that is
// not known. Behind such a rule nothing allows the request: people decide. A tool that is not
// known may be the tool of any such rule: then the pattern decides and, if the rule has none,
// people do.
func decide(p *api.DialoguePolicy, r api.DialogueRequest) *api.DialogueRule {
	if p == nil || r.Kind != "permission" { // a question or a plan is for people
		return nil
	}
	doubt := false
	for i, rule := range p.Rules {
		named := fits(rule.Tool, r.Tool, "")
		if !named && (rule.Action == "allow" || !toolUnknown(r)) {
			continue
		}
		if !concerns(rule, r) {
			doubt = doubt || r.Subject == "" && rule.Action != "allow"
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

// toolUnknown reports whether the agent did not say which tool it wants to use. In ACP the
// name and the kind of a tool are optional.
func toolUnknown(r api.DialogueRequest) bool { return r.Tool == "" || r.Tool == "other" }

// anything reports whether a pattern matches every subject.
func anything(pattern string) bool { return pattern == "" || pattern == "*" }

// concerns reports whether the pattern of a rule is that of a request. Where the subject is
// only what the agent wrote for people, or is not known, a rule that denies or asks looks for
// its pattern in all texts of the request; also where the tool is not known, because then
// nobody knows which of the texts the tool uses.
func concerns(rule api.DialogueRule, r api.DialogueRequest) bool {
	switch {
	case anything(rule.Pattern):
		return true
	case r.Subject != "" && describes(rule, r.SubjectKind, r.Subject):
		return true
	case rule.Action == "allow" || r.Subject != "" && !r.SubjectGuessed() && !toolUnknown(r):
		return false
	}
	for _, text := range append(inputTexts(r.Input), r.Subject, r.Title) {
		if mentions(rule.Pattern, text) {
			return true
		}
	}
	return false
}

// joins are the characters that make more than one command of a command, or let it write
// elsewhere: "git *" must not allow "git status; rm -rf ~".
const joins = "\n\r;|&`$()<>"

// describes reports whether the pattern of a rule is that of a subject. The same thing can be
// written in several ways: what is allowed has to fit in all of them, what is not in one.
// A subject of another kind may be a command as well as a path.
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
			return false // * is for what is below, not for ..
		}
	}
	if allow && kind == "address" && !fits(site(rule.Pattern), site(subject), "@") {
		return false // * in the name of a site is not for the path of another one
	}
	for _, way := range ways {
		if fits(way(rule.Pattern), way(subject), forbidden) != allow {
			return !allow
		}
	}
	return allow
}

// singleBlanks is a command without the blanks that mean nothing.
func singleBlanks(command string) string { return strings.Join(strings.Fields(command), " ") }

// cleanPath is a path, or an address, without what leads back and forth. A slash at its end
// stays: it stands for all that is in a directory.
func cleanPath(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// site is the beginning of an address, up to its path.
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

// directory is the directory itself for all that is in it: who keeps out of /etc/* does not
// want /etc to be searched either.
func directory(p string) string {
	return strings.TrimSuffix(strings.TrimSuffix(cleanPath(p), "*"), "/")
}

// upwards is what of a clean path leads out of the directory where it begins.
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

// fits reports whether s is what the pattern describes; * stands for anything without the
// forbidden characters.
func fits(pattern, s, forbidden string) bool {
	fit := make([]bool, len(s)+1) // fit[i]: the pattern up to here describes s[:i]
	fit[0] = true
	match(fit, pattern, s, forbidden)
	return fit[len(s)]
}

// match takes the places of s where a pattern may begin, and leaves those where it may end.
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
