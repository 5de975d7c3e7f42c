package dialogue

import (
	"maps"
	"os"
	"path/filepath"
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

// known are the programs that Installed looks for.
var known = []api.InstalledAgent{
	{Agent: "claude", Argv: []string{"claude"}},
	{Agent: "codex", Argv: []string{"codex"}},
	{Agent: "acp", Argv: []string{"gemini", "--acp"}},
	{Agent: "acp", Argv: []string{"goose", "acp"}},
	{Agent: "acp", Argv: []string{"opencode", "acp"}},
	{Agent: "acp", Argv: []string{"qwen", "--acp"}},
}

// Installed returns the agents on the PATH of this process, which is that of the sessions on the host.
func Installed() (found []api.InstalledAgent) {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for _, a := range known {
		for _, dir := range dirs {
			path := filepath.Join(dir, a.Argv[0])
			if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
				a.Path = path
				found = append(found, a)
				break
			}
		}
	}
	return found
}

func findAgent(name string) (agent.Agent, error) {
	a, ok := agents[name]
	if !ok {
		names := strings.Join(slices.Sorted(maps.Keys(agents)), ", ")
		return nil, api.InvalidParam("agent", "%.40q is not one of %s", name, names)
	}
	return a, nil
}
