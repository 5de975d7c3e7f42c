package model

import "regexp"

// CodexScripts are those of the model that Codex talks to.
func CodexScripts() map[string][]Step {
	s := bothScripts()
	s["bash"] = []Step{Say("I will run a command.").Call(Exec("echo hello-from-codex && seq 1 3")), Say("The command printed a greeting.")}
	s["fail"] = []Step{Say("A command that fails.").Call(Exec("echo oops >&2; exit 3")), Say("It failed.")}
	s["unknown"] = []Step{Say("A tool that is not there.").Call(Tool{"no_such_tool", map[string]any{"a": 1}}), Say("There is no such tool.")}
	s["parallel"] = []Step{Step{}.Call(Exec("echo one"), Exec("echo two")), Say("Both ran.")}
	s["touch"] = []Step{Say("It needs to be allowed.").Call(Tool{"exec_command", map[string]any{
		"cmd": "touch allowed.txt", "sandbox_permissions": "require_escalated", "justification": "May it make a file?",
	}}), Say("That step is over.")}
	s["wait"] = []Step{Say("It needs to be allowed, and takes long.").Call(Tool{"exec_command", map[string]any{
		"cmd": "until [ -e go ]; do sleep 0.05; done; touch allowed.txt; echo went", "login": false, "yield_time_ms": 30000, "sandbox_permissions": "require_escalated", "justification": "May it wait?",
	}}), Say("It went.")}
	s["long"] = []Step{Say("A long command.").Call(Exec("echo started > started; sleep 1000")), Say("After the long command.")}
	s["gate"] = []Step{Say("A command that waits.").Call(Exec("until [ -e go ]; do sleep 0.05; done; echo went")), Say("After the command that waits.")}
	s["ask"] = []Step{Say("A question.").Call(Tool{"request_user_input", map[string]any{"questions": []any{map[string]any{
		"id": "color", "header": "Color", "question": "Which color?",
		"options": []any{map[string]any{"label": "Red", "description": "red"}, map[string]any{"label": "Blue", "description": "blue"}},
	}}}}), Say("Thanks.")}

	s["sub"] = []Step{Say("The subagent looks.").Call(Exec("echo from-sub")), Say("Report of the subagent.")}
	s["sub_b"] = []Step{Say("The other subagent looks.").Call(Exec("echo from-other")), Say("Report of the other subagent.")}
	s["sub_gate"] = []Step{Say("The subagent waits.").Call(Exec("until [ -e go ]; do sleep 0.05; done; echo sub-went")), Say("Report of the one that waited.")}
	s["sub_long"] = []Step{Say("The subagent takes long.").Call(Exec("echo started >> started; sleep 1000")), Say("It took long.")}
	s["sub_outer"] = []Step{Say("The outer one delegates.").Call(Spawn("Inner", "sub")), Step{}.Call(WaitAgent(0)), Say("Report of the outer one.")}
	s["agent"] = []Step{Say("Delegating.").Call(Spawn("Inspect", "sub")), Step{}.Call(WaitAgent(0)), Say("The subagent is done.")}
	s["agents"] = []Step{Say("Two subagents.").Call(Spawn("First", "sub"), Spawn("Second", "sub_b")), Step{}.Call(WaitAgent(0)), Step{}.Call(WaitAgent(1)), Say("Both subagents are done.")}
	s["agents_long"] = []Step{Say("Two that take long.").Call(Spawn("Long A", "sub_long"), Spawn("Long B", "sub_long")), Step{}.Call(WaitAgent(0)), Say("Both took long.")}
	s["nested"] = []Step{Say("Nesting.").Call(Spawn("Outer", "sub_outer")), Step{}.Call(WaitAgent(0)), Say("The nested work is done.")}
	s["background"] = []Step{Say("In the background.").Call(Spawn("Waits", "sub_gate")), Say("It was started in the background.")}
	return s
}

// Exec is the call of Codex's shell.
func Exec(command string) Tool {
	return Tool{"exec_command", map[string]any{"cmd": command, "login": false, "yield_time_ms": 30000}}
}

// Spawn is the start of a subagent of Codex, which follows the script of that name.
func Spawn(what, script string) Tool {
	return Tool{"multi_agent_v1.spawn_agent", map[string]any{"message": what + " [[" + script + "]]"}}
}

// WaitAgent waits for the nth subagent that the script has started, from 0.
func WaitAgent(nth int) Tool {
	return Tool{"multi_agent_v1.wait_agent", map[string]any{"targets": spawned(nth), "timeout_ms": 60000}}
}

// spawned stands for a list of the id of a subagent, which only the conversation tells.
type spawned int

var agentID = regexp.MustCompile(`"agent_id"\s*:\s*"([^"]+)"`)

// fill puts the ids of subagents in.
func (t Tool) fill(req Request) Tool {
	var agents []string // that the script started
	for _, m := range req.Messages {
		if m.markers && marker.MatchString(m.Text) {
			agents = nil
		}
		for _, found := range agentID.FindAllStringSubmatch(m.Text, -1) {
			agents = append(agents, found[1])
		}
	}
	input := map[string]any{}
	for name, value := range t.Input {
		if nth, ok := value.(spawned); ok {
			value = agents[min(int(nth), len(agents)):min(int(nth)+1, len(agents))]
		}
		input[name] = value
	}
	return Tool{t.Name, input}
}
