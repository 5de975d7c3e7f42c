package runner

import (
	"sort"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// environment is the complete environment of the shell, sorted, and its PATH.
func environment(p link.CreateParams) (env []string, path string) {
	merged := map[string]string{"TERM": "dumb"}
	for k, v := range p.BaseEnv {
		merged[k] = v
	}
	for k, v := range p.Params.Env {
		merged[k] = v
	}
	merged[api.SessionMarker] = p.SessionID
	// PWD is set by the shell package; the others would make a shell read a file
	// nobody asked for, or end by itself.
	for _, k := range []string{"PWD", "OLDPWD", "TMOUT"} {
		delete(merged, k)
	}
	if !p.Params.RC {
		delete(merged, "ENV")
		delete(merged, "BASH_ENV")
	}
	for k, v := range merged {
		env = append(env, k+"="+v)
	}
	sort.Strings(env)
	return env, merged["PATH"]
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
