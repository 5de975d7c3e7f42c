package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
)

// policyFlags are the flags with the rules that answer requests of an agent.
type policyFlags struct {
	rules []api.DialogueRule // of --allow and --deny, in their order
	file  string
}

func (f *policyFlags) register(flags *pflag.FlagSet) {
	flags.Var(&ruleFlag{&f.rules, "allow"}, "allow", "allow requests that match this rule, such as Read or \"Bash(git *)\"; may be repeated")
	flags.Var(&ruleFlag{&f.rules, "deny"}, "deny", "deny requests that match this rule; may be repeated")
	flags.StringVar(&f.file, "policy", "", "JSON `FILE` with rules to try after these (see trl call --help dialogue.set)")
}

func (f *policyFlags) given() bool { return f.rules != nil || f.file != "" }

// policy returns the policy of the flags, nil if none was given.
func (f *policyFlags) policy() (*api.DialoguePolicy, error) {
	if !f.given() {
		return nil, nil
	}
	p := &api.DialoguePolicy{}
	if f.file != "" {
		text, err := os.ReadFile(f.file)
		if err != nil {
			return nil, err
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields() // a misspelt rule must not be ignored
		if err := dec.Decode(p); err != nil {
			return nil, fmt.Errorf("%s: %w", f.file, err)
		}
	}
	p.Rules = append(f.rules, p.Rules...)
	return p, nil
}

// ruleFlag is --allow or --deny. Both add to one list, because their order matters.
type ruleFlag struct {
	rules  *[]api.DialogueRule
	action string
}

func (f *ruleFlag) Type() string { return "RULE" }

func (f *ruleFlag) String() string { return "" }

func (f *ruleFlag) Set(text string) error {
	rule := api.DialogueRule{Tool: strings.TrimSpace(text), Action: f.action}
	if tool, rest, ok := strings.Cut(rule.Tool, "("); ok {
		pattern, closed := strings.CutSuffix(rest, ")")
		if !closed {
			return fmt.Errorf("the parenthesis is not closed")
		}
		rule.Tool, rule.Pattern = strings.TrimSpace(tool), pattern
	}
	if rule.Tool == "" {
		return fmt.Errorf("no tool is named; * is any")
	}
	*f.rules = append(*f.rules, rule)
	return nil
}
