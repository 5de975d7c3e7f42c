package config

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// A setting is one field of Config, as its tags describe it.
type setting struct {
	index          int
	key, env, flag string
	kind           kind
	min, max       float64
	doc            string
}

// kind says how a value is written and what it may be.
type kind string

const (
	kindPath     kind = "path"    // a string: an absolute path once loaded
	kindText     kind = "text"    // a string that is not empty
	kindLevel    kind = "level"   // a string: one of the levels
	kindMode     kind = "mode"    // a string: require or best-effort
	kindAudit    kind = "audit"   // a string: on, off or require
	kindCount    kind = "count"   // int64
	kindBytes    kind = "bytes"   // int64, also written as 16MiB
	kindSeconds  kind = "seconds" // float64, also written as 90s or 1h30m
	kindNumber   kind = "number"  // float64
	kindBool     kind = "bool"
	kindAddress  kind = "address"  // a string: host:port, or empty
	kindURL      kind = "url"      // a string: a URL of https, or of http on this machine, or empty
	kindEndpoint kind = "endpoint" // a string: an http or https URL, or empty
	kindList     kind = "list"     // a string: words with commas between; see Words
)

// year bounds every duration: more than anyone waits, and safe in arithmetic.
const year = 366 * 24 * 3600

var settings = readSettings()

// readSettings makes the table of settings from the tags of Config.
func readSettings() []setting {
	var list []setting
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("key")
		if key == "" {
			continue
		}
		s := setting{
			index: i, key: key, env: f.Tag.Get("env"), flag: strings.ReplaceAll(key, "_", "-"),
			kind: kind(f.Tag.Get("kind")), doc: f.Tag.Get("doc"), max: math.MaxInt64 / 2,
		}
		if s.env == "" {
			s.env = "TRL_" + strings.ToUpper(key)
		}
		if s.kind == kindSeconds {
			s.max = year
		}
		s.min, s.max = boundOf(f, "min", s.min), boundOf(f, "max", s.max)
		list = append(list, s)
	}
	return list
}

// boundOf is what the tag of a field says, or else otherwise.
func boundOf(f reflect.StructField, tag string, otherwise float64) float64 {
	text := f.Tag.Get(tag)
	if text == "" {
		return otherwise
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("config: " + f.Tag.Get("key") + ": tag " + tag + ": " + err.Error())
	}
	return v
}

func find(key string) (setting, bool) {
	for _, s := range settings {
		if s.key == key {
			return s, true
		}
	}
	return setting{}, false
}

func (s setting) get(c *Config) any { return reflect.ValueOf(c).Elem().Field(s.index).Interface() }

func (s setting) set(c *Config, v any) {
	reflect.ValueOf(c).Elem().Field(s.index).Set(reflect.ValueOf(v))
}

// parse reads a value as it is written in a flag or in the environment.
func (s setting) parse(text string) (any, error) {
	text = strings.TrimSpace(text)
	switch s.kind {
	case kindBool:
		switch strings.ToLower(text) {
		case "1", "true", "yes", "on":
			return true, nil
		case "0", "false", "no", "off":
			return false, nil
		}
		return nil, fmt.Errorf("%q: must be true or false", text)
	case kindCount:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: must be a whole number", text)
		}
		return v, nil
	case kindBytes:
		return ParseBytes(text)
	case kindNumber:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: must be a number", text)
		}
		return v, nil
	case kindSeconds:
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			return v, nil
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("%q: must be a number of seconds, or a duration such as 1h30m", text)
		}
		return d.Seconds(), nil
	case kindList:
		return strings.Join(Words(text), ","), nil
	}
	return text, nil
}

// Words are the entries of a setting of kind list.
func Words(list string) []string {
	var words []string
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// convert takes a value as the TOML decoder gives it.
func (s setting) convert(v any) (any, error) {
	switch v := v.(type) {
	case string:
		if s.kind != kindBool && s.kind != kindCount {
			return s.parse(v)
		}
	case bool:
		if s.kind == kindBool {
			return v, nil
		}
	case int64:
		switch s.kind {
		case kindCount, kindBytes:
			return v, nil
		case kindSeconds, kindNumber:
			return float64(v), nil
		}
	case float64:
		if s.kind == kindSeconds || s.kind == kindNumber {
			return v, nil
		}
	case []any:
		if list, ok := joined(v); ok && s.kind == kindList {
			return s.parse(list)
		}
	}
	return nil, fmt.Errorf("%v: must be %s", v, s.kind.words())
}

// joined writes a list of the TOML decoder with commas, if it is one of words.
func joined(list []any) (string, bool) {
	var words []string
	for _, v := range list {
		word, ok := v.(string)
		if !ok || strings.Contains(word, ",") {
			return "", false
		}
		words = append(words, word)
	}
	return strings.Join(words, ","), true
}

// words names what a value of that kind looks like, for people.
func (k kind) words() string {
	switch k {
	case kindBool:
		return "true or false"
	case kindCount:
		return "a whole number"
	case kindBytes:
		return `a number of bytes, or a size such as "16MiB"`
	case kindSeconds:
		return `a number of seconds, or a duration such as "1h30m"`
	case kindNumber:
		return "a number"
	case kindList:
		return "a list of strings"
	}
	return "a string"
}

// check reports why v cannot be the value of s.
func (s setting) check(v any) error {
	switch v := v.(type) {
	case int64:
		if float64(v) < s.min || float64(v) > s.max {
			return fmt.Errorf("%d: must be %s", v, s.bounds())
		}
	case float64:
		if !(v >= s.min && v <= s.max) { // also refuses NaN
			return fmt.Errorf("%v: must be %s", v, s.bounds())
		}
	case string:
		switch {
		case strings.IndexByte(v, 0) >= 0:
			return fmt.Errorf("%q: has a NUL byte", v)
		case s.kind == kindText && v == "":
			return fmt.Errorf("must not be empty")
		case s.kind == kindPath && !filepath.IsAbs(v):
			return fmt.Errorf("%q: must be an absolute path", v)
		case s.kind == kindAddress && v != "":
			return checkAddress(v)
		case s.kind == kindURL && v != "":
			return checkURL(v)
		case s.kind == kindEndpoint && v != "":
			return checkEndpoint(v)
		case s.kind == kindMode && v != "require" && v != "best-effort":
			return fmt.Errorf("%q: must be require or best-effort", v)
		case s.kind == kindAudit && v != "on" && v != "off" && v != "require":
			return fmt.Errorf("%q: must be on, off or require", v)
		case s.kind == kindLevel && v != "debug" && v != "info" && v != "warn" && v != "error":
			return fmt.Errorf("%q: must be debug, info, warn or error", v)
		}
	}
	return nil
}

func (s setting) bounds() string {
	low := strconv.FormatFloat(s.min, 'f', -1, 64)
	if s.max >= math.MaxInt64/2 {
		return "at least " + low
	}
	return "from " + low + " to " + strconv.FormatFloat(s.max, 'f', -1, 64)
}

// units are the ways to write a size. The longest come first.
var units = []struct {
	name  string
	bytes int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1},
}

// ParseBytes reads a size such as 1048576, 512M or 2GiB.
func ParseBytes(text string) (int64, error) {
	number, factor := strings.ToLower(text), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil || v > math.MaxInt64/2/factor || v < math.MinInt64/2/factor {
		return 0, fmt.Errorf("%q: must be %s", text, kindBytes.words())
	}
	return v * factor, nil
}
