package ui

import (
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// SecondsFlag is a duration: 30, 1.5, 90s, 2m. Value is nil if the flag was not given.
type SecondsFlag struct{ Value *float64 }

// Type returns the word for the value in help texts.
func (f *SecondsFlag) Type() string { return "DURATION" }

// String returns the duration, "" if the flag was not given.
func (f *SecondsFlag) String() string {
	if f.Value == nil {
		return ""
	}
	return Seconds(*f.Value)
}

// Set parses the value.
func (f *SecondsFlag) Set(text string) error {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d, durationErr := time.ParseDuration(text)
		if durationErr != nil {
			return fmt.Errorf("not a duration such as 30, 1.5s or 2m")
		}
		s = d.Seconds()
	}
	if !(s >= 0) || math.IsInf(s, 0) {
		return fmt.Errorf("must be 0 or more")
	}
	f.Value = &s
	return nil
}

// NameFlag is the name or id of a session. It rejects "", which is usually an unset variable of
// a script: without a name the command would mean something else.
type NameFlag string

// Type returns the word for the value in help texts.
func (f *NameFlag) Type() string { return "NAME" }

// String returns the name.
func (f *NameFlag) String() string { return string(*f) }

// Set takes the name.
func (f *NameFlag) Set(text string) error {
	if text == "" {
		return fmt.Errorf("the name of a session must not be empty")
	}
	*f = NameFlag(text)
	return nil
}

// DirFlag is a directory. It rejects "" as NameFlag does: without a directory the command would run
// elsewhere.
type DirFlag string

// Type returns the word for the value in help texts.
func (f *DirFlag) Type() string { return "DIR" }

// String returns the directory.
func (f *DirFlag) String() string { return string(*f) }

// Set takes the directory.
func (f *DirFlag) Set(text string) error {
	if text == "" {
		return fmt.Errorf("the directory must not be empty")
	}
	*f = DirFlag(text)
	return nil
}

// EnvFlag collects variables, KEY=VALUE. KEY alone takes the caller's value, so that a secret
// need not appear in an argument list.
type EnvFlag map[string]string

// Type returns the word for the value in help texts.
func (f *EnvFlag) Type() string { return "KEY[=VALUE]" }

// String returns the names of the variables, without their values.
func (f *EnvFlag) String() string {
	keys := make([]string, 0, len(*f))
	for k := range *f {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return strings.Join(keys, ",")
}

// Set adds a variable.
func (f *EnvFlag) Set(text string) error {
	key, value, given := strings.Cut(text, "=")
	if key == "" {
		return fmt.Errorf("no name before the =")
	}
	if !given {
		if value, given = os.LookupEnv(key); !given {
			return fmt.Errorf("%s is not set here; give a value with %s=VALUE", key, key)
		}
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("the value of %s is not UTF-8", key)
	}
	if *f == nil {
		*f = EnvFlag{}
	}
	(*f)[key] = value
	return nil
}
