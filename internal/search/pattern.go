package search

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/trl-dev/trl/api"
)

const (
	// maxPatternBytes bounds the text of a pattern, before it is parsed.
	maxPatternBytes = 16 << 10
	// maxPatternSteps bounds the work of a pattern at each byte. The search of one long line
	// cannot be interrupted; with this bound it takes seconds at worst.
	maxPatternSteps = 2000
)

// Compile compiles a pattern in RE2 syntax. It refuses a pattern that would take too long,
// because every client with read access can send one. The field is for the error.
func Compile(field, pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPatternBytes {
		return nil, api.InvalidParam(field, "has %d bytes, more than %d", len(pattern), maxPatternBytes)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if wrong := (*syntax.Error)(nil); errors.As(err, &wrong) {
		return nil, api.InvalidParam(field, "error parsing regexp: %s: `%.100s`", wrong.Code, wrong.Expr)
	}
	if err == nil && steps(parsed) > maxPatternSteps {
		return nil, api.InvalidParam(field, "is too large: repetitions and alternatives add up to more than %d steps", maxPatternSteps)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, api.InvalidParam(field, "%s", err)
	}
	return re, nil
}

// steps estimates how many instructions an expression needs. The parser bounds the depth and the
// counts of nested repetitions.
func steps(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
