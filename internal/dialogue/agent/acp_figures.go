package agent

import "github.com/trl-dev/trl/api"

// acpTokens are the figures of a turn, or of one call of the model.
type acpTokens struct {
	InputTokens, OutputTokens, ThoughtTokens, CachedReadTokens, CachedWriteTokens int64
}

func (t acpTokens) usage() api.DialogueUsage {
	return api.DialogueUsage{
		InputTokens: rpcTokens(t.InputTokens), OutputTokens: rpcTokens(t.OutputTokens) + rpcTokens(t.ThoughtTokens),
		CacheReadTokens: rpcTokens(t.CachedReadTokens), CacheWriteTokens: rpcTokens(t.CachedWriteTokens),
	}
}

// acpMeta is where agents put figures for which the protocol had no place when they were
// written: Qwen Code with an empty message after each call of the model, Gemini CLI with the
// end of a turn.
type acpMeta struct {
	Usage *acpTokens
	Quota struct {
		TokenCount struct {
			InputTokens  int64 `json:"input_tokens"`
			OutputTokens int64 `json:"output_tokens"`
		} `json:"token_count"`
	}
}

// called adds the figures of one call of the model to those of the turn. Its input has what
// was read from a cache in it.
func (a *acpProtocol) called(t *acpTokens) {
	p := a.turn()
	if t == nil || p == nil {
		return
	}
	one := t.usage()
	one.InputTokens = max(0, one.InputTokens-one.CacheReadTokens)
	p.used = codexPlus(p.used, one)
}
