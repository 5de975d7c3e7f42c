package model

import "strings"

// What both models can be made to do.
func bothScripts() map[string][]Step {
	return map[string][]Step{
		"plain":  {Say("Hello from the scripted model. This is a plain answer.")},
		"think":  {{Thinking: "Let me consider the question.", Texts: []string{"Considered."}}},
		"multi":  {{Thinking: "Two blocks.", Texts: []string{"The first block.", "The second block."}}},
		"turn1":  {Say("Answer to turn one.")},
		"turn2":  {Say("Answer to turn two.")},
		"turn3":  {Say("Answer to turn three.")},
		"hold":   {{Texts: []string{"This answer begins and has no end. "}, Hold: true}},
		"huge":   {Say(strings.Repeat("0123456789abcdef", 2<<20/16))},
		"wide":   {{Texts: []string{strings.Repeat("0123456789abcdef", 1<<20/16)}, Hold: true}},
		"giant":  {Say(strings.Repeat("0123456789abcdef", 20<<20/16))},
		"signs":  {Say("Tab\tCR\rLF\nESC\x1b[31mred\x1b[0m \u2028 \u2029 rocket \U0001F680 quote \" back \\ end")},
		"err400": {{Fault: &Fault{Status: 400, Kind: "invalid_request_error"}}},
		"err401": {{Fault: &Fault{Status: 401, Kind: "authentication_error"}}},
		"err529": {{Fault: &Fault{Status: 529, Kind: "overloaded_error"}}},
		// These go well in the end.
		"busy": {{Fault: &Fault{Status: 529, Kind: "overloaded_error", Times: 2}, Texts: []string{"Answered after two refusals."}}},
		"cut":  {{Fault: &Fault{Times: 1}, Texts: []string{"The connection is cut in the middle of this sentence."}}},
	}
}

// ClaudeScripts are those of the model that Claude Code talks to.
func ClaudeScripts() map[string][]Step {
	s := bothScripts()
	s["bash"] = []Step{Say("I will run a command.").Call(Bash("echo hello-from-bash && seq 1 3")), Say("The command printed a greeting.")}
	s["fail"] = []Step{Say("A command that fails.").Call(Bash("echo oops >&2; exit 3")), Say("It failed.")}
	s["unknown"] = []Step{Say("A tool that is not there.").Call(Tool{"NoSuchTool", map[string]any{"a": 1}}), Say("There is no such tool.")}
	s["parallel"] = []Step{Step{}.Call(Bash("echo one"), Bash("echo two")), Say("Both ran.")}
	s["touch"] = []Step{Say("It needs to be allowed.").Call(Bash("touch allowed.txt")), Say("That step is over.")}
	s["wait"] = []Step{Say("It needs to be allowed, and takes long.").Call(Bash("until [ -e go ]; do sleep 0.05; done; touch allowed.txt; echo went")), Say("It went.")}
	s["long"] = []Step{Say("A long command.").Call(Bash("echo started > started; sleep 1000")), Say("After the long command.")}
	s["gate"] = []Step{Say("A command that waits.").Call(Bash("until [ -e go ]; do sleep 0.05; done; echo went")), Say("After the command that waits.")}
	s["bigout"] = []Step{Say("A large output.").Call(Bash("head -c 3000000 /dev/zero | tr '\\0' x")), Say("Large output seen.")}
	s["bgbash"] = []Step{
		Say("A command in the background.").Call(Tool{"Bash", map[string]any{"command": "until [ -e go ]; do sleep 0.05; done; echo bg-done", "description": "waits", "run_in_background": true}}),
		Say("It is in the background."), Say("The command in the background has ended."),
	}
	s["ask"] = []Step{Say("A question.").Call(Tool{"AskUserQuestion", map[string]any{"questions": []any{map[string]any{
		"question": "Which color?", "header": "Color", "multiSelect": false,
		"options": []any{map[string]any{"label": "Red", "description": "red"}, map[string]any{"label": "Blue", "description": "blue"}},
	}}}}), Say("Thanks.")}
	s["plan"] = []Step{Say("Here is a plan.").Call(Tool{"ExitPlanMode", map[string]any{"plan": "1. Do it"}}), Say("The plan is settled.")}

	// Subagents: sub runs a command, waiting one that ends when the file go is there.
	s["sub"] = []Step{Say("The subagent looks.").Call(Bash("echo from-sub")), Say("Report of the subagent.")}
	s["sub_b"] = []Step{Say("The other subagent looks.").Call(Bash("echo from-other")), Say("Report of the other subagent.")}
	s["sub_gate"] = []Step{Say("The subagent waits.").Call(Bash("until [ -e go ]; do sleep 0.05; done; echo sub-went")), Say("Report of the one that waited.")}
	s["sub_long"] = []Step{Say("The subagent takes long.").Call(Bash("echo started >> started; sleep 1000")), Say("It took long.")}
	s["sub_outer"] = []Step{Say("The outer one delegates.").Call(Agent("Inner", "sub", false)), Say("Report of the outer one.")}
	s["agent"] = []Step{Say("Delegating.").Call(Agent("Inspect", "sub", false)), Say("The subagent is done.")}
	s["agent_touch"] = []Step{Say("Delegating what needs to be allowed.").Call(Agent("Gated", "touch", false)), Say("The gated subagent is done.")}
	s["agents"] = []Step{Say("Two subagents.").Call(Agent("First", "sub", false), Agent("Second", "sub_b", false)), Say("Both subagents are done.")}
	s["agents_long"] = []Step{Say("Two that take long.").Call(Agent("Long A", "sub_long", false), Agent("Long B", "sub_long", false)), Say("Both took long.")}
	s["nested"] = []Step{Say("Nesting.").Call(Agent("Outer", "sub_outer", false)), Say("The nested work is done.")}
	s["background"] = []Step{Say("In the background.").Call(Agent("Waits", "sub_gate", true)), Say("It was started in the background."), Say("The background reported.")}
	return s
}

// Bash is the call of Claude Code's shell.
func Bash(command string) Tool {
	return Tool{"Bash", map[string]any{"command": command, "description": "Runs a command"}}
}

// Agent is the call of a subagent, which follows the script of that name.
func Agent(what, script string, background bool) Tool {
	return Tool{"Agent", map[string]any{
		"description": what, "prompt": what + " [[" + script + "]]", "subagent_type": "general-purpose", "run_in_background": background,
	}}
}
