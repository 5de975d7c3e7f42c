package acp

import (
	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// tokens are the figures of a turn, or of one answer of the model.
type tokens struct {
	InputTokens, OutputTokens, ThoughtTokens, CachedReadTokens, CachedWriteTokens int64
}

func (t tokens) usage() api.DialogueUsage {
	return api.DialogueUsage{
		InputTokens: jsonrpc.Tokens(t.InputTokens), OutputTokens: jsonrpc.Tokens(t.OutputTokens) + jsonrpc.Tokens(t.ThoughtTokens),
		CacheReadTokens: jsonrpc.Tokens(t.CachedReadTokens), CacheWriteTokens: jsonrpc.Tokens(t.CachedWriteTokens),
	}
}

// meta has the figures that agents send outside the protocol: Qwen Code in an empty message after
// each answer of the model, Gemini CLI at the end of a turn.
type meta struct {
	Usage *tokens
	Quota struct {
		TokenCount struct {
			InputTokens  int64 `json:"input_tokens"`
			OutputTokens int64 `json:"output_tokens"`
		} `json:"token_count"`
	}
}

// called adds the figures of one answer of the model to its turn. The input tokens of these
// figures include the cached ones.
func (a *protocol) called(t *tokens) {
	p := a.turn()
	if t == nil || p == nil {
		return
	}
	one := t.usage()
	one.InputTokens = max(0, one.InputTokens-one.CacheReadTokens)
	p.used = jsonrpc.AddUsage(p.used, one)
}
