package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/trl-dev/trl/api"
)

func TestRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(file, []byte(`{"rules":[{"tool":"*","action":"ask"}],"deny_after_s":5}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := policyFlags{file: file}
	allow, deny := &ruleFlag{&f.rules, "allow"}, &ruleFlag{&f.rules, "deny"}
	for _, err := range []error{deny.Set("Bash(rm (x) *)"), allow.Set("Bash(git *)"), allow.Set(" Read ")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	five := 5.0
	want := &api.DialoguePolicy{DenyAfterS: &five, Rules: []api.DialogueRule{
		{Tool: "Bash", Pattern: "rm (x) *", Action: "deny"}, {Tool: "Bash", Pattern: "git *", Action: "allow"}, {Tool: "Read", Action: "allow"}, {Tool: "*", Action: "ask"},
	}}
	if got, err := f.policy(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "(x)", "Bash(git"} {
		if allow.Set(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if err := os.WriteFile(file, []byte(`{"rule":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.policy(); err == nil {
		t.Error("a policy with a typo is taken")
	}
}
