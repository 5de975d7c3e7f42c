package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// longestLine is how much of a line is kept until its newline comes. A longer line is matched in
// pieces.
const longestLine = 1 << 20

// matching adds data to the lines of a stream and returns the complete lines that match. It
// keeps an incomplete line.
func (l *logs) matching(name string, data []byte) []byte {
	rest := append(l.lines[name], data...)
	var out []byte
	for {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 && len(rest) > longestLine {
			n = len(rest)
		}
		if n == 0 {
			break
		}
		if l.grep.Match(bytes.TrimSuffix(rest[:n], []byte("\n"))) {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	l.lines[name] = append([]byte(nil), rest...)
	return out
}

// flush prints the incomplete lines that match.
func (l *logs) flush() error {
	var errs []error
	for _, name := range []string{api.EventStdout, api.EventStderr} {
		if rest := l.lines[name]; l.grep != nil && len(rest) > 0 && l.grep.Match(rest) {
			errs = append(errs, l.app.pass(name, rest))
		}
		delete(l.lines, name)
	}
	return errors.Join(errs...)
}

// sizeFlag is a number of bytes: 4096, 64K, 8M. n is nil if the flag was not given.
type sizeFlag struct{ n *int64 }

// Type returns the word for the value in help texts.
func (f *sizeFlag) Type() string { return "BYTES" }

func (f *sizeFlag) String() string {
	if f.n == nil {
		return ""
	}
	return strconv.FormatInt(*f.n, 10)
}

// Set parses the value.
func (f *sizeFlag) Set(text string) error {
	number, unit := strings.TrimSuffix(strings.TrimSuffix(text, "B"), "i"), int64(1)
	if n := len(number); n > 0 {
		if i := strings.IndexByte("KMG", number[n-1]&^0x20); i >= 0 {
			number, unit = number[:n-1], 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("not a number of bytes such as 4096, 64K or 8M")
	}
	if n > api.MaxOutputLimit/unit {
		return fmt.Errorf("at most %s", ui.BytesText(api.MaxOutputLimit))
	}
	n *= unit
	f.n = &n
	return nil
}
