package codex

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// wireItem is an item as Codex sends it, with the fields of all types.
type wireItem struct {
	Type, ID, Status  string
	ClientID          string          // userMessage
	Content           json.RawMessage // userMessage, reasoning
	Fragments         []struct{ Text string }
	Text              string // agentMessage, plan
	Summary           []string
	Command, Cwd      string // commandExecution
	AggregatedOutput  string
	ExitCode          json.RawMessage
	Changes           []fileChange // fileChange
	Server, Tool      string       // mcpToolCall, dynamicToolCall, collabAgentToolCall
	Namespace, Name   string       // dynamicToolCall, functionCallOutput
	Arguments, Result json.RawMessage
	Error             *struct{ Message string }
	ContentItems      json.RawMessage
	Success           *bool
	Output            json.RawMessage // functionCallOutput
	ReceiverThreadIDs []string        // collabAgentToolCall
	Prompt            string
	AgentsStates      map[string]agentState
	Kind              string // subAgentActivity
	AgentThreadID     string
	AgentPath         string
	Query             string // webSearch
	Action, Results   json.RawMessage
	Path, SavedPath   string // imageView, imageGeneration
	RevisedPrompt     string
	Review            string // exitedReviewMode
	DurationMs        int64  // sleep
}

type agentState struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// fileChange is the change of one file.
type fileChange struct {
	Path string `json:"path"`
	Kind struct {
		Type     string  `json:"type"`
		MovePath *string `json:"move_path,omitempty"`
	} `json:"kind"`
	Diff string `json:"diff"`
}

// item is the item as TRL publishes it, but with Codex's ids for it and its task; nil for an
// unknown type.
func (it wireItem) item(done bool) *api.DialogueItem {
	switch it.Type {
	case "userMessage":
		return it.said("user", true, it.userParts()...)
	case "hookPrompt":
		item := it.said("user", true)
		for _, f := range it.Fragments {
			item.Parts = append(item.Parts, api.DialoguePart{Type: "text", Text: f.Text})
		}
		item.Synthetic = true
		return item
	case "agentMessage":
		return it.said("agent", done, api.DialoguePart{Type: "text", Text: it.Text})
	case "exitedReviewMode":
		return it.said("agent", done, api.DialoguePart{Type: "text", Text: it.Review})
	case "plan":
		return it.said("plan", done, api.DialoguePart{Type: "text", Text: it.Text})
	case "reasoning":
		var content []string
		json.Unmarshal(it.Content, &content)
		item := it.said("reasoning", done)
		for _, text := range append(it.Summary, content...) {
			item.Parts = append(item.Parts, api.DialoguePart{Type: "text", Text: text})
		}
		if !done && len(item.Parts) == 0 {
			item.Parts = []api.DialoguePart{{Type: "text"}}
		}
		return item
	}
	tool := it.toolCall()
	if tool == nil {
		return nil
	}
	item := &api.DialogueItem{NativeID: it.ID, Kind: "tool_call", Status: "final", Tool: tool}
	switch it.Status {
	case "completed":
		tool.Status = "completed"
	case "failed":
		tool.Status = "failed"
	case "declined":
		tool.Status, item.Error = "failed", "declined"
	case "interrupted":
		tool.Status = "cancelled"
	case "inProgress":
		tool.Status = "running"
	default: // the type has no status, or other words for it
		tool.Status = "running"
		if done {
			tool.Status = "completed"
		}
	}
	if it.Error != nil {
		item.Error = it.Error.Message
	}
	return item
}

func (it wireItem) said(kind string, done bool, parts ...api.DialoguePart) *api.DialogueItem {
	status := "streaming"
	if done {
		status = "final"
	}
	return &api.DialogueItem{NativeID: it.ID, Kind: kind, Status: status, Parts: parts}
}

func (it wireItem) userParts() (parts []api.DialoguePart) {
	var content []json.RawMessage
	json.Unmarshal(it.Content, &content)
	for _, raw := range content {
		var block struct{ Type, Text, URL, Path string }
		json.Unmarshal(raw, &block)
		media, data, inline := strings.Cut(strings.TrimPrefix(block.URL, "data:"), ";base64,")
		switch {
		case block.Type == "text":
			parts = append(parts, api.DialoguePart{Type: "text", Text: block.Text})
		case block.Type == "image" && inline:
			parts = append(parts, api.DialoguePart{Type: "image", MediaType: media, DataBase64: data})
		default:
			parts = append(parts, api.DialoguePart{Type: "data", Data: raw})
		}
	}
	return parts
}

// toolCall is the tool call of an item, without its status; nil for an unknown type.
func (it wireItem) toolCall() *api.DialogueToolCall {
	switch it.Type {
	case "commandExecution":
		tool := &api.DialogueToolCall{Name: it.Type, Kind: "execute", Subject: innerCommand(it.Command), ExitCode: jsonrpc.Number[int](it.ExitCode)}
		tool.Input = jsonrpc.Encode(params{"command": it.Command, "cwd": it.Cwd})
		if it.AggregatedOutput != "" {
			tool.Output = []api.DialoguePart{{Type: "text", Text: it.AggregatedOutput}}
		}
		return tool
	case "fileChange":
		tool := &api.DialogueToolCall{Name: it.Type, Kind: "edit", Subject: agent.CommonPath(changedFiles(it.Changes))}
		tool.Input = jsonrpc.Encode(params{"changes": it.Changes})
		for _, ch := range it.Changes {
			tool.Output = append(tool.Output, ch.parts()...)
		}
		return tool
	case "mcpToolCall":
		tool := &api.DialogueToolCall{Name: "mcp__" + it.Server + "__" + it.Tool, Kind: "mcp", Subject: it.Tool, Input: it.Arguments}
		var result struct {
			Content           []json.RawMessage
			StructuredContent json.RawMessage
		}
		json.Unmarshal(it.Result, &result)
		tool.Output = jsonrpc.Parts(result.Content)
		tool.Structured = jsonrpc.NotNull(result.StructuredContent)
		return tool
	case "dynamicToolCall":
		return &api.DialogueToolCall{Name: strings.TrimPrefix(it.Namespace+"."+it.Tool, "."), Kind: "other", Input: it.Arguments, Output: jsonrpc.RawParts(it.ContentItems)}
	case "functionCallOutput":
		return &api.DialogueToolCall{Name: strings.TrimPrefix(it.Namespace+"."+it.Name, "."), Kind: "other", Output: jsonrpc.RawParts(it.Output)}
	case "collabAgentToolCall":
		tool := &api.DialogueToolCall{Name: it.Tool, Kind: "agent", Subject: it.Prompt}
		tool.Input = jsonrpc.Encode(params{"prompt": it.Prompt, "receiverThreadIds": append([]string{}, it.ReceiverThreadIDs...)})
		if it.Tool == "spawnAgent" && len(it.ReceiverThreadIDs) > 0 {
			tool.TaskID = it.ReceiverThreadIDs[0]
		}
		if len(it.AgentsStates) > 0 {
			tool.Structured = jsonrpc.Encode(params{"agentsStates": it.AgentsStates})
		}
		return tool
	case "subAgentActivity":
		return &api.DialogueToolCall{Name: it.Type, Kind: "agent", Subject: it.AgentPath, TaskID: it.AgentThreadID}
	case "webSearch":
		var action struct{ Type, URL string }
		json.Unmarshal(it.Action, &action)
		tool := &api.DialogueToolCall{Name: it.Type, Kind: "search", Subject: it.Query, Input: jsonrpc.NotNull(it.Action), Structured: jsonrpc.NotNull(it.Results)}
		if action.Type == "openPage" || action.Type == "findInPage" {
			tool.Kind, tool.Subject = "fetch", action.URL
		}
		return tool
	case "imageView":
		return &api.DialogueToolCall{Name: it.Type, Kind: "read", Subject: it.Path}
	case "imageGeneration":
		tool := &api.DialogueToolCall{Name: it.Type, Kind: "other", Subject: it.RevisedPrompt}
		if it.SavedPath != "" {
			tool.Output = []api.DialoguePart{{Type: "resource", Path: it.SavedPath}}
		}
		return tool
	case "sleep":
		return &api.DialogueToolCall{Name: it.Type, Kind: "other", Input: jsonrpc.Encode(params{"durationMs": it.DurationMs})}
	}
	return nil
}

// parts are the old and new texts of a change. Codex sends the whole text of a new or removed
// file, and else a unified diff, of which each hunk becomes a part.
func (ch fileChange) parts() (parts []api.DialoguePart) {
	file := ch.Path
	if ch.Kind.MovePath != nil && *ch.Kind.MovePath != "" {
		file = *ch.Kind.MovePath
	}
	switch ch.Kind.Type {
	case "add":
		return []api.DialoguePart{{Type: "diff", Path: file, Text: ch.Diff}}
	case "delete":
		return []api.DialoguePart{{Type: "diff", Path: file, Old: ch.Diff}}
	}
	var before, after strings.Builder
	flush := func() {
		if before.Len()+after.Len() > 0 {
			parts = append(parts, api.DialoguePart{Type: "diff", Path: file, Old: before.String(), Text: after.String()})
		}
		before.Reset()
		after.Reset()
	}
	for line := range strings.Lines(ch.Diff) {
		switch line[0] {
		case '@':
			flush()
		case '-':
			before.WriteString(line[1:])
		case '+':
			after.WriteString(line[1:])
		case '\\': // "No newline at end of file"
		default:
			before.WriteString(strings.TrimPrefix(line, " "))
			after.WriteString(strings.TrimPrefix(line, " "))
		}
	}
	if flush(); len(parts) == 0 {
		parts = []api.DialoguePart{{Type: "diff", Path: file}} // the file was only moved
	}
	return parts
}

// changedFiles are the files of changes, before and after they are moved.
func changedFiles(changes []fileChange) (files []string) {
	for _, ch := range changes {
		files = append(files, ch.Path)
		if ch.Kind.MovePath != nil && *ch.Kind.MovePath != "" {
			files = append(files, *ch.Kind.MovePath)
		}
	}
	return files
}

// innerCommand is a command without the shell that Codex wraps around it: git status instead of
// /bin/bash -lc 'git status'. A command of any other form stays as it is.
func innerCommand(command string) string {
	words := strings.SplitN(command, " ", 3)
	if len(words) < 3 || (words[1] != "-lc" && words[1] != "-c") {
		return command
	}
	switch path.Base(words[0]) {
	case "bash", "sh", "zsh", "dash", "ksh":
	default:
		return command
	}
	if inner, ok := unquote(words[2]); ok {
		return inner
	}
	return command
}

// unquote removes the quotes from one word of a shell. It is not ok if there are several words, or
// if the shell would expand something.
func unquote(s string) (word string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return "", false
			}
			b.WriteString(s[i+1 : i+1+end])
			i += 1 + end
		case c == '"':
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '$' || s[i] == '`' {
					return "", false
				}
				if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\\\"$`", s[i+1]) >= 0 {
					i++
				}
				b.WriteByte(s[i])
			}
			if i == len(s) {
				return "", false
			}
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case strings.IndexByte(" \t\n$`;|&<>()*?[]{}~#!\\", c) >= 0:
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}
