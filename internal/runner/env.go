package runner

import (
	"sort"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// environment returns the whole environment of the shell or program, sorted, and its PATH. own is
// the environment of the place, for a daemon that does not know it.
func environment(p link.CreateParams, own map[string]string) (env []string, path string) {
	merged := map[string]string{"TERM": "dumb"}
	base := p.BaseEnv
	if base == nil {
		base = own
	}
	for k, v := range base {
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
	delete(merged, api.ExecMarker) // of a command in which the daemon was started
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

// ofStarter are variables about the login, the shell or the service that started a runner in a
// place. They are wrong for a session, which outlives these.
var ofStarter = map[string]bool{
	"PWD": true, "OLDPWD": true, "SHLVL": true, "_": true, "XDG_SESSION_ID": true, "XDG_SESSION_TYPE": true, "XDG_SESSION_CLASS": true,
	"NOTIFY_SOCKET": true, "INVOCATION_ID": true, "JOURNAL_STREAM": true, "GORACE": true, "GOCOVERDIR": true,
}

// runnerEnv returns the environment of a runner in a place: that of its starter, without the
// variables about a connection that will end.
func runnerEnv(environ []string) []string {
	var env []string
	for _, kv := range environ {
		key, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(key, "SSH_") && key != api.SessionMarker && key != startDirVariable && key != link.SecretsVariable {
			env = append(env, kv)
		}
	}
	return env
}

// baseEnv returns the environment that a session in a place begins with.
func baseEnv(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		key, value, ok := strings.Cut(kv, "=")
		if ok && key != "" && !ofStarter[key] && !strings.HasPrefix(key, "TRL_") {
			env[key] = value
		}
	}
	if env["PATH"] == "" {
		env["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	env["TERM"] = "dumb"
	return env
}
