package claude

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/trl-dev/trl/api"
)

// usageSinceVersion is the first version whose results report the usage since the previous
// result. Older versions report only totals.
const usageSinceVersion = "2.1.310"

// isOlder compares versions. An unknown version counts as old.
func isOlder(version, than string) bool {
	numbers := func(s string) []int {
		n := make([]int, 3)
		_, _ = fmt.Sscanf(s, "%d.%d.%d", &n[0], &n[1], &n[2])
		return n
	}
	return slices.Compare(numbers(version), numbers(than)) < 0
}

// askTotals asks for the totals with which the process begins. Some versions begin with the
// totals of the resumed conversation, if its last process could save them; others with 0.
func (p *protocol) askTotals() {
	p.control(map[string]any{"subtype": "get_usage"}, func(a controlAnswer) {
		session := readFields(readFields(a.response).raw("session"))
		models := readFields(session.raw("model_usage"))
		if models == nil || p.blocks.Len() > 0 {
			return // it does not know its totals, or they already include this process
		}
		p.totals = sumTotals(models, session.fraction("total_cost_usd"))
		p.usedBefore = addUses(api.DialogueUsage{}, p.totals, -1)
	})
}

// figures reads the usage from a result.
func (p *protocol) figures(l *wireLine, turn *api.DialogueUsage) {
	p.window = max(p.window, window(readFields(l.raw("modelUsage"))))
	if models := readFields(l.raw("model_usage_since_last_result")); models != nil {
		since := sumUses(models)
		turn.CostUSD = since.CostUSD
		p.publishUsage(addUses(p.used, since, 1))
		return
	}
	models := readFields(l.raw("modelUsage"))
	if models == nil {
		return
	}
	totals := sumTotals(models, l.fraction("total_cost_usd"))
	if totals.OutputTokens < p.totals.OutputTokens {
		if !p.renamed {
			return // a result after an error has no figures
		}
		p.usedBefore = p.used // some versions count from 0 after the conversation is cleared
	}
	p.totals, p.renamed = totals, false
	p.publishUsage(addUses(p.usedBefore, totals, 1))
}

// noteContext records how full the context is after an answer of the model.
func (p *protocol) noteContext(usage fields) {
	if n := usage.number("input_tokens") + usage.number("cache_read_input_tokens") + usage.number("cache_creation_input_tokens"); n > 0 {
		p.context = n + usage.number("output_tokens")
	}
}

// window is the largest context of the models in a result.
func window(models fields) int64 {
	var most int64
	for _, model := range models {
		most = max(most, readFields(model.value).number("contextWindow"))
	}
	return most
}

func (p *protocol) publishUsage(u api.DialogueUsage) {
	u.ContextTokens, u.ContextWindow = p.context, p.window
	p.used = u
	p.publish(api.DialogueEvent{Type: api.DialogueEventUsage, Usage: &u})
}

// sumTotals is sumUses with the total cost that the program reports, which may include more.
func sumTotals(models fields, cost float64) api.DialogueUsage {
	sum := sumUses(models)
	if cost != 0 {
		sum.CostUSD = &cost
	}
	return sum
}

// sumUses adds up the usage of the models, in the order of their names, because a sum of
// fractions depends on the order.
func sumUses(models fields) api.DialogueUsage {
	var sum api.DialogueUsage
	var cost float64
	slices.SortFunc(models, func(a, b field) int { return bytes.Compare(a.name, b.name) })
	for _, model := range models {
		u := readFields(model.value)
		sum.InputTokens += u.number("inputTokens")
		sum.OutputTokens += u.number("outputTokens")
		sum.CacheReadTokens += u.number("cacheReadInputTokens")
		sum.CacheWriteTokens += u.number("cacheCreationInputTokens")
		cost += u.fraction("costUSD")
	}
	sum.CostUSD = &cost
	return sum
}

// addUses returns a + times·b.
func addUses(a, b api.DialogueUsage, times int64) api.DialogueUsage {
	sum := api.DialogueUsage{
		InputTokens: a.InputTokens + times*b.InputTokens, OutputTokens: a.OutputTokens + times*b.OutputTokens,
		CacheReadTokens: a.CacheReadTokens + times*b.CacheReadTokens, CacheWriteTokens: a.CacheWriteTokens + times*b.CacheWriteTokens,
	}
	if b.CostUSD != nil {
		cost := float64(times) * *b.CostUSD
		if a.CostUSD != nil {
			cost += *a.CostUSD
		}
		sum.CostUSD = &cost
	}
	return sum
}
