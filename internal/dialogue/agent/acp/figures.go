package acp

import (
	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// tokens are the figures of a turn, or of one call of the model.
type tokens struct {
	InputTokens, OutputTokens, ThoughtTokens, CachedReadTokens, CachedWriteTokens int64
}

func (t tokens) usage() api.DialogueUsage {
	return api.DialogueUsage{
		InputTokens: jsonrpc.Tokens(t.InputTokens), OutputTokens: jsonrpc.Tokens(t.OutputTokens) + jsonrpc.Tokens(t.ThoughtTokens),
		CacheReadTokens: jsonrpc.Tokens(t.CachedReadTokens), CacheWriteTokens: jsonrpc.Tokens(t.CachedWriteTokens),
	}
}

// meta is where agents put figures for which the protocol had no place when they were
// written: Qwen Code with an empty message after each call of the model, Gemini CLI with the
// end of a turn.
type meta struct {
	Usage *tokens
	Quota struct {
		TokenCount struct {
			InputTokens  int64 `json:"input_tokens"`
			OutputTokens int64 `json:"output_tokens"`
		} `json:"token_count"`
	}
}

// called adds the figures of one call of the model to those of the turn. Its input has what
// was read from a cache in it.
func (a *protocol) called(t *tokens) {
	p := a.turn()
	if t == nil || p == nil {
		return
	}
	one := t.usage()
	one.InputTokens = max(0, one.InputTokens-one.CacheReadTokens)
	p.used = jsonrpc.AddUsage(p.used, one)
}
