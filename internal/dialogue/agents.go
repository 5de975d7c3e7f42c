package dialogue

import (
	"maps"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/acp"
	"github.com/trl-dev/trl/internal/dialogue/agent/claude"
	"github.com/trl-dev/trl/internal/dialogue/agent/codex"
)

// agents are the agents that a dialogue can drive, by the name in dialogue.create. Another
// agent is a folder below agent/ and a row here.
var agents = map[string]agent.Agent{
	"acp":    acp.Agent{},
	"claude": claude.Agent{},
	"codex":  codex.Agent{},
}

func findAgent(name string) (agent.Agent, error) {
	a, ok := agents[name]
	if !ok {
		names := strings.Join(slices.Sorted(maps.Keys(agents)), ", ")
		return nil, api.InvalidParam("agent", "%.40q is not one of %s", name, names)
	}
	return a, nil
}
