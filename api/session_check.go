package api

import "strings"

const (
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// validName reports whether s can be the name of a session. A name never looks like an id,
// so a parameter can accept either.
func validName(s string) bool {
	return len(s) <= 64 && startsAndGoesOn(s, letters+digits, letters+digits+"._-") && !strings.HasPrefix(s, "s-") && !strings.HasPrefix(s, "x-")
}

// validEnvKey reports whether every shell accepts s as the name of a variable.
func validEnvKey(s string) bool { return startsAndGoesOn(s, letters+"_", letters+digits+"_") }

func startsAndGoesOn(s, first, rest string) bool {
	return s != "" && strings.IndexByte(first, s[0]) >= 0 && strings.TrimLeft(s[1:], rest) == ""
}

// Check reports the first invalid parameter.
func (p SessionCreateParams) Check() error {
	if p.Name != "" {
		if err := checkName(p.Name); err != nil {
			return err
		}
	}
	if err := noNUL("shell", p.Shell); err != nil {
		return err
	}
	if err := noNUL("prefer_shell", p.PreferShell); err != nil {
		return err
	}
	if err := checkDir(p.WorkingDir); err != nil {
		return err
	}
	if err := checkTags(p.Tags); err != nil {
		return err
	}
	if err := checkSeconds("timeout_s", p.TimeoutS); err != nil {
		return err
	}
	if err := checkSeconds("linger_s", p.LingerS); err != nil {
		return err
	}
	if err := checkEnds(p.LifetimeS, p.IdleTimeoutS); err != nil {
		return err
	}
	if err := checkLimits(p.Limits, p.LimitsMode, p.LifetimeS); err != nil {
		return err
	}
	if err := p.Isolation.Check("isolation"); err != nil {
		return err
	}
	if err := p.IsolationMode.check("isolation_mode"); err != nil {
		return err
	}
	if p.LingerS != nil && !p.Ephemeral {
		return InvalidParam("linger_s", "is only for ephemeral sessions")
	}
	if err := p.checkPlace(); err != nil {
		return err
	}
	if err := p.checkKind(); err != nil {
		return err
	}
	return checkEnv(p.Env)
}

func checkName(name string) error {
	if !validName(name) {
		return InvalidParam("name", "%.100q: must be 1 to 64 of A-Z a-z 0-9 . _ -, begin with a letter or digit, and not with \"s-\" or \"x-\"", name)
	}
	return nil
}

func checkTags(tags []string) error {
	for _, tag := range tags {
		if tag == "" || len(tag) > 128 {
			return InvalidParam("tags", "a tag must have 1 to 128 bytes")
		}
	}
	if len(tags) > 64 {
		return InvalidParam("tags", "at most 64")
	}
	return nil
}

// checkPlace checks what can be said about the place without the configuration.
func (p SessionCreateParams) checkPlace() error {
	if p.Runtime != "" {
		if err := CheckPlaceWord(p.Runtime); err != nil {
			return err
		}
	}
	if p.Beside != "" && p.Place != nil {
		return InvalidParam("place", "cannot be given together with beside: the place already exists")
	}
	if len(p.CreateID) > 128 || !plainText(p.CreateID) {
		return InvalidParam("create_id", "must have at most 128 bytes and no control characters")
	}
	return checkSeconds("create_timeout_s", p.CreateTimeoutS)
}

// checkKind rejects parameters that do not apply to the kind of session.
func (p SessionCreateParams) checkKind() error {
	switch p.Kind {
	case "", KindShell, KindTerminal, KindProgram:
	default:
		return InvalidParam("kind", "%.40q is not one of shell, terminal, program", p.Kind)
	}
	shell, terminal := p.Kind == "" || p.Kind == KindShell, p.Kind == KindTerminal
	for _, c := range []struct {
		field   string
		misfits bool
		is      string
	}{
		{"command", shell && p.Command != nil, "is only for kind terminal or program; a shell runs commands with exec.run"},
		{"timeout_s", !shell && p.TimeoutS != nil && *p.TimeoutS != 0, "is only for kind shell; a terminal or program has no timeout"},
		{"shell", !shell && p.Shell != "" && (p.Command != nil || !terminal), "cannot be given together with command, or for kind program"},
		{"shell", p.Shell == NoShell && !shell, "none is only for kind shell"},
		{"login", p.Shell == NoShell && p.Login, "is only for a shell"},
		{"rc", p.Shell == NoShell && p.RC, "is only for a shell"},
		{"login", !shell && p.Login && (p.Command != nil || !terminal), "is only for a shell"},
		{"rc", !shell && p.RC && (p.Command != nil || !terminal), "is only for a shell"},
		{"command", p.Kind == KindProgram && len(p.Command) == 0, "is required for kind program"},
		{"command", p.Command != nil && (len(p.Command) == 0 || p.Command[0] == ""), "must begin with the program"},
		{"cols", !terminal && p.Cols != nil, "is only for kind terminal"},
		{"rows", !terminal && p.Rows != nil, "is only for kind terminal"},
		{"term", !terminal && p.Term != "", "is only for kind terminal"},
		{"scrollback", !terminal && p.Scrollback != nil, "is only for kind terminal"},
		{"record", !terminal && p.Record, "is only for kind terminal"},
		{"record_input", p.RecordInput && !p.Record, "needs record"},
		{"scrollback", p.Scrollback != nil && (*p.Scrollback < 0 || *p.Scrollback > MaxScrollback), "must be 0 to 100000"},
	} {
		if c.misfits {
			return InvalidParam(c.field, "%s", c.is)
		}
	}
	for _, arg := range p.Command {
		if err := noNUL("command", arg); err != nil {
			return err
		}
	}
	if err := noNUL("term", p.Term); err != nil {
		return err
	}
	return checkSize(p.Size())
}

// Size returns the size of the new terminal.
func (p SessionCreateParams) Size() (cols, rows int) {
	cols, rows = DefaultCols, DefaultRows
	if p.Cols != nil {
		cols = *p.Cols
	}
	if p.Rows != nil {
		rows = *p.Rows
	}
	return cols, rows
}

func checkEnv(env map[string]string) error {
	for k, v := range env {
		if !validEnvKey(k) {
			return InvalidParam("env", "%q is not a valid variable name", k)
		}
		if k == SessionMarker || k == ExecMarker {
			return InvalidParam("env", "%s is reserved", k)
		}
		if strings.IndexByte(v, 0) >= 0 {
			return InvalidParam("env", "%s: the value has a NUL byte", k)
		}
	}
	return nil
}

func checkEnds(lifetime, idle *float64) error {
	if err := checkSeconds("lifetime_s", lifetime); err != nil {
		return err
	}
	return checkSeconds("idle_timeout_s", idle)
}

// checkDir rejects a relative directory: it would be relative to the daemon's directory,
// not to the caller's.
func checkDir(dir string) error {
	if dir != "" && !strings.HasPrefix(dir, "/") {
		return InvalidParam("working_dir", "%.200q: must begin with /; the daemon does not know the caller's directory", dir)
	}
	return noNUL("working_dir", dir)
}

func noNUL(field, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return InvalidParam(field, "has a NUL byte")
	}
	return nil
}
