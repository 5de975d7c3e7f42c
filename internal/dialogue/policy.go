package dialogue

import (
	"strings"

	"github.com/trl-dev/trl/api"
)

// decide is the first rule of a policy that fits a request; nil when none does, or the
// request is left to people.
func decide(p *api.DialoguePolicy, r api.DialogueRequest) *api.DialogueRule {
	if p == nil || r.Kind != "permission" { // a question or a plan is for people
		return nil
	}
	for i, rule := range p.Rules {
		if !fits(rule.Tool, r.Tool, "") {
			continue
		}
		forbidden := ""
		if rule.Action == "allow" {
			forbidden = joins
		}
		if rule.Pattern != "" && rule.Pattern != "*" && !fits(rule.Pattern, r.Subject, forbidden) {
			continue
		}
		if rule.Action == "ask" {
			return nil
		}
		return &p.Rules[i]
	}
	return nil
}

// joins are the characters that make more than one command of a command, or let it write
// elsewhere: "git *" must not allow "git status; rm -rf ~".
const joins = "\n\r;|&`$()<>"

// fits reports whether s is what the pattern describes; * stands for anything without the
// forbidden characters.
func fits(pattern, s, forbidden string) bool {
	fit := make([]bool, len(s)+1) // fit[i]: the pattern up to here describes s[:i]
	fit[0] = true
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
	return fit[len(s)]
}
