// Package dialogue holds conversations with coding agents. Each dialogue owns a session of kind
// program, in which the agent runs, and a record on disk that survives the agent, the daemon and a
// reboot. Package agent has the agents' protocols; package transcript reduces their events.
//
// Start reading at Dialogue (dialogue.go). One line of the agent's output takes this path:
//
//	readOutput (agent_process.go)   receives a piece of output from the session
//	receive, lineLocked             write it to the record and cut it into lines
//	agent.Protocol.Line             turns a line into events and replies
//	takeLocked, publishLocked       put the events into the record, for the readers
//	applyPolicyLocked               answers requests that a rule of the policy decides
//
// A caller's request (calls.go) joins the path at agent.Protocol.Do.
package dialogue
