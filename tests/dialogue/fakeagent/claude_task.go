package main

// child is a line of a subagent's.
func (c *claude) child(parent, task string, block obj) {
	c.out.line(c.assistant(c.messageID(), block, parent, obj{"agent_id": task, "subagent_type": "general-purpose"}))
}

// spawnTask starts a task: one that its call waits for, one that does not, or one whose
// first words come before the call that started it.
func (c *claude) spawnTask(command, gate string) error {
	switch command {
	case "subagent":
		call := c.call("Agent", input("Agent", "look into it"))
		task := c.started(call, "local_agent", false)
		c.works(call, task)
		c.completed(call, task)
		c.gives(call, "the report", false, "")
	case "orphan-child":
		call, task := "toolu_"+c.uuid()[:13], "a"+c.uuid()[:8]
		c.child(call, task, obj{"type": "text", "text": "the child speaks first"})
		c.out.line(c.assistant(c.messageID(), obj{"type": "tool_use", "id": call, "name": "Agent", "input": input("Agent", "look into it")}, "", nil))
		c.works(call, task)
		c.gives(call, "the report", false, "")
	case "background-task":
		in := input("Agent", "look into it")
		in["run_in_background"] = true
		call := c.call("Agent", in)
		task := c.started(call, "local_agent", true)
		c.gives(call, "Async agent launched successfully.", false, "")
		c.after = append(c.after, func() error { return c.later(call, task, gate, true) })
	case "background-shell":
		in := input("Bash", "sleep 2; echo done")
		in["run_in_background"] = true
		call := c.call("Bash", in)
		task := c.started(call, "local_bash", true)
		c.gives(call, "Command running in background with ID: "+task, false, "")
		c.after = append(c.after, func() error {
			c.tell("idle")
			return c.later(call, task, gate, false)
		})
	}
	return nil
}

func (c *claude) started(call, kind string, background bool) (task string) {
	task = "a" + c.uuid()[:8]
	if background {
		c.line("system", "background_tasks_changed", obj{"tasks": []obj{{"task_id": task, "task_type": kind, "description": "look into it"}}})
	}
	c.line("system", "task_started", obj{"task_id": task, "run_id": task + "-1", "tool_use_id": call, "description": "look into it",
		"is_backgrounded": background, "spawn_depth": 1, "task_type": kind})
	return task
}

// works is what a subagent does.
func (c *claude) works(call, task string) {
	c.child(call, task, obj{"type": "text", "text": "the child looks"})
	inner := "toolu_" + c.uuid()[:13]
	c.child(call, task, obj{"type": "tool_use", "id": inner, "name": "Bash", "input": input("Bash", "ls")})
	c.user([]obj{{"type": "tool_result", "tool_use_id": inner, "content": "done: ls", "is_error": false}}, call, obj{"agent_id": task})
	c.child(call, task, obj{"type": "text", "text": "the child reports"})
}

func (c *claude) completed(call, task string) { c.taskOver(call, task, "completed", "completed") }

func (c *claude) taskOver(call, task, patch, status string) {
	c.line("system", "task_updated", obj{"task_id": task, "run_id": task + "-1", "patch": obj{"status": patch}})
	c.line("system", "task_notification", obj{"task_id": task, "run_id": task + "-1", "tool_use_id": call, "status": status, "summary": "the report"})
}

// later is the rest of a task in the background, and the turn that its end makes.
func (c *claude) later(call, task, gate string, agent bool) error {
	if gate != "" {
		if err := c.gate(gate); err != nil {
			c.taskOver(call, task, "killed", "stopped")
			c.line("system", "background_tasks_changed", obj{"tasks": []obj{}})
			return err
		}
	}
	if agent {
		c.works(call, task)
	}
	c.completed(call, task)
	c.line("system", "background_tasks_changed", obj{"tasks": []obj{}})
	c.tell("running")
	c.before = c.steps
	c.init()
	c.say("The background task reported.")
	c.result(nil)
	return nil
}
