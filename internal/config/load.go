package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/internal/near"
	"github.com/trl-dev/trl/internal/place"
)

// flagConfig and envConfig name the file.
const (
	flagConfig = "config"
	envConfig  = "TRL_CONFIG"
)

// EnvAuthToken is the variable with a token for HTTP. It is a secret, so it is no
// setting: it is never stored and never shown.
const EnvAuthToken = "TRL_AUTH_TOKEN"

// clientVariables are of callers, not of the daemon (see package client).
var clientVariables = []string{"TRL_CA_FILE", "TRL_CLIENT_CERT", "TRL_CLIENT_KEY"}

// Load reads the configuration. Flags may be nil, or hold only some of the flags
// that Register adds; environ is the environment in the form of os.Environ. An
// error names the key, the value and where it came from.
func Load(flags *pflag.FlagSet, environ []string) (Config, error) {
	env := environment(environ)
	c := base()
	c.origins = map[string]string{}
	c.setPlaces(env)
	c.defaults = map[string]any{}
	for _, s := range settings {
		c.defaults[s.key] = s.get(&c)
	}
	path, explicit := filePath(flags, env)
	if path != "" {
		if full, err := filepath.Abs(path); err == nil {
			c.file = full
		}
		text, err := os.ReadFile(path)
		switch {
		case err == nil:
			if err := c.applyFile(path, text); err != nil {
				return Config{}, err
			}
		case explicit || !errors.Is(err, fs.ErrNotExist):
			return Config{}, fmt.Errorf("config file: %w", err)
		}
	}
	if err := c.applyEnvironment(env); err != nil {
		return Config{}, err
	}
	if err := c.applyFlags(flags); err != nil {
		return Config{}, err
	}
	if err := c.check(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// File is the path of the file that Load read, or would have read if it were there; "" if it can be nowhere.
func (c Config) File() string { return c.file }

// put sets one value after checking it.
func (c *Config) put(s setting, v any, origin string) error {
	if err := s.check(v); err != nil {
		return fmt.Errorf("%s: %w (%s)", s.key, err, origin)
	}
	s.set(c, v)
	c.origins[s.key] = origin
	return nil
}

// filePath returns the file to read, and whether the user named it.
func filePath(flags *pflag.FlagSet, env map[string]string) (path string, explicit bool) {
	if flags != nil && flags.Changed(flagConfig) {
		return flags.Lookup(flagConfig).Value.String(), true
	}
	if p := env[envConfig]; p != "" {
		return p, true
	}
	return place.ConfigFile(func(name string) string { return env[name] }), false
}

func (c *Config) applyFile(path string, text []byte) error {
	var values map[string]any
	if _, err := toml.Decode(string(text), &values); err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			return fmt.Errorf("config file %s: line %d: %s", path, parse.Position.Line, parse.Message)
		}
		return fmt.Errorf("config file %s: %w", path, err)
	}
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys) // so that of several mistakes the same one is reported each time
	origin := "file " + path
	for _, key := range keys {
		if key == keyRuntimes {
			if err := c.applyRuntimes(values[key], origin); err != nil {
				return err
			}
			continue
		}
		if key == keyIsolation {
			if err := c.applyIsolation(values[key], origin); err != nil {
				return err
			}
			continue
		}
		s, ok := find(key)
		if !ok {
			return unknown(key, origin)
		}
		v, err := s.convert(values[key])
		if err != nil {
			return fmt.Errorf("%s: %w (%s)", key, err, origin)
		}
		if err := c.put(s, v, origin); err != nil {
			return err
		}
	}
	return nil
}

func unknown(key, origin string) error {
	keys := []string{keyRuntimes, keyIsolation}
	for _, s := range settings {
		keys = append(keys, s.key)
	}
	if meant := near.Word(key, keys, len(key)/3+1); meant != "" {
		return fmt.Errorf("%s: unknown key; did you mean %s? (%s)", key, meant, origin)
	}
	return fmt.Errorf("%s: unknown key (%s)", key, origin)
}

// applyEnvironment takes the variables of the settings. Other variables that begin
// with TRL_ are none of our business, but one that is nearly right is noted.
func (c *Config) applyEnvironment(env map[string]string) error {
	known := map[string]bool{envConfig: true, EnvAuthToken: true}
	for _, name := range clientVariables {
		known[name] = true
	}
	for _, s := range settings {
		known[s.env] = true
		text, ok := env[s.env]
		if !ok || text == "" {
			continue
		}
		if err := c.putText(s, text, "env "+s.env); err != nil {
			return err
		}
	}
	var names []string // without the prefix, which they all have
	for name := range known {
		names = append(names, strings.TrimPrefix(name, "TRL_"))
	}
	sort.Strings(names)
	for name := range env {
		rest, ours := strings.CutPrefix(name, "TRL_")
		if !ours || known[name] {
			continue
		}
		if meant := near.Word(rest, names, len(rest)/3+1); meant != "" {
			c.notes = append(c.notes, fmt.Sprintf("environment: %s: unknown; did you mean TRL_%s?", name, meant))
		}
	}
	sort.Strings(c.notes)
	return nil
}

func (c *Config) applyFlags(flags *pflag.FlagSet) error {
	if flags == nil {
		return nil
	}
	for _, s := range settings {
		if f := flags.Lookup(s.flag); f != nil && f.Changed {
			if err := c.putText(s, f.Value.String(), "flag --"+s.flag); err != nil {
				return err
			}
		}
	}
	return nil
}

// putText sets a value written by a person at a prompt, for whom a relative path
// is one below the current directory.
func (c *Config) putText(s setting, text, origin string) error {
	v, err := s.parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w (%s)", s.key, err, origin)
	}
	if path, ok := v.(string); ok && s.kind == kindPath && path != "" {
		if v, err = filepath.Abs(path); err != nil {
			return fmt.Errorf("%s: %w (%s)", s.key, err, origin)
		}
	}
	return c.put(s, v, origin)
}

func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env
}

// Register adds the flags of the settings named by keys to flags, or all of them
// and --config when no key is named.
func Register(flags *pflag.FlagSet, keys ...string) {
	if len(keys) == 0 {
		RegisterFile(flags)
	}
	fallback := base()
	for _, s := range settings {
		if len(keys) > 0 && !slices.Contains(keys, s.key) {
			continue
		}
		f := flags.VarPF(&flagValue{kind: s.kind}, s.flag, "", fmt.Sprintf("%s (%s)", s.doc, s.env))
		if s.kind == kindBool {
			f.NoOptDefVal = "true"
		}
		if s.kind != kindPath { // which depends on the environment
			f.DefValue = fmt.Sprint(s.get(&fallback))
		}
	}
}

// RegisterFile adds --config alone, for commands that take only some of the settings.
func RegisterFile(flags *pflag.FlagSet) {
	flags.String(flagConfig, "", "configuration `FILE` (TRL_CONFIG)")
}

// flagValue keeps the text of a flag. Load parses it, so that a mistake gets the same message
// wherever it was made.
type flagValue struct {
	kind kind
	text string
}

func (v *flagValue) String() string     { return v.text }
func (v *flagValue) Set(s string) error { v.text = s; return nil }

// IsSetting reports whether a flag is a setting, added by Register.
func IsSetting(f *pflag.Flag) bool { _, ok := f.Value.(*flagValue); return ok }

// Type is the word for the value in a help text.
func (v *flagValue) Type() string {
	switch v.kind {
	case kindPath:
		return "path"
	case kindCount:
		return "n"
	case kindText, kindLevel, kindMode, kindAudit:
		return "string"
	case kindURL, kindEndpoint:
		return "url"
	case kindAddress:
		return "host:port"
	}
	return string(v.kind)
}
