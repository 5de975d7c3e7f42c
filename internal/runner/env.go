package runner

import (
	"sort"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// environment returns the whole environment of the shell or program, sorted, and its PATH.
func environment(p link.CreateParams) (env []string, path string) {
	merged := map[string]string{"TERM": "dumb"}
	for k, v := range p.BaseEnv {
		merged[k] = v
	}
	if p.Params.Kind == api.KindTerminal {
		for _, k := range otherTerminal {
			delete(merged, k)
		}
		merged["TERM"], merged["COLORTERM"] = api.DefaultTerm, "truecolor"
	}
	for k, v := range p.Params.Env {
		merged[k] = v
	}
	if p.Params.Term != "" {
		merged["TERM"] = p.Params.Term
	}
	merged[api.SessionMarker] = p.SessionID
	// These name a directory that the daemon was started in.
	delete(merged, "PWD")
	delete(merged, "OLDPWD")
	if p.Params.Kind == "" || p.Params.Kind == api.KindShell {
		// TMOUT would make the shell end on its own; the others would make it read a file that
		// the caller did not ask for.
		delete(merged, "TMOUT")
		if !p.Params.RC {
			delete(merged, "ENV")
			delete(merged, "BASH_ENV")
		}
	}
	for k, v := range merged {
		env = append(env, k+"="+v)
	}
	sort.Strings(env)
	return env, merged["PATH"]
}

// otherTerminal are variables that describe the terminal in which the daemon was started.
var otherTerminal = []string{
	"LINES", "COLUMNS", "TERMCAP", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "TMUX", "TMUX_PANE", "STY", "WINDOW",
	"WINDOWID", "VTE_VERSION", "KITTY_WINDOW_ID", "KITTY_PID", "ITERM_SESSION_ID", "WEZTERM_PANE", "ALACRITTY_WINDOW_ID",
}

func envValue(env []string, key string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, key+"="); ok {
			return v
		}
	}
	return ""
}

func envKeys(env map[string]string) []string {
	keys := make([]string, 0, len(env))
	for k := range env {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
