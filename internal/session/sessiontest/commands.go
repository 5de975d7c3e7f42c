package sessiontest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// Commands for Runtime.Command.

// Hang runs the command "hang" until it is cancelled. Other commands end at once.
func Hang(ctx context.Context, x *Exec) int {
	if x.Params.Command == "hang" {
		<-ctx.Done()
	}
	return 0
}

// Echo is a program that writes its input, and ends when the input begins with "exit". The input
// "flood N" makes it write N stars.
func Echo(ctx context.Context, x *Exec) int {
	for {
		text, n := x.Input(ctx), 0
		switch _, err := fmt.Sscanf(text, "flood %d", &n); {
		case ctx.Err() != nil:
			return 143
		case strings.HasPrefix(text, "exit"):
			return 3
		case err == nil:
			x.Stdout(strings.Repeat("*", n))
		default:
			x.Stdout(text)
		}
	}
}

// Writer returns a command that writes the texts, with a pause after each. The first letter of a
// text is o for stdout or e for stderr; the text "gap" makes a gap in the log.
func Writer(pause time.Duration, code int, writes ...string) func(context.Context, *Exec) int {
	return func(_ context.Context, x *Exec) int {
		for _, w := range writes {
			switch {
			case w == "gap":
				x.Gap(100, 1)
			case w[0] == 'o':
				x.Stdout(w[1:])
			default:
				x.Stderr(w[1:])
			}
			time.Sleep(pause)
		}
		return code
	}
}

// Script is a command whose text is a list of words, which it carries out in order: a number is a
// pause in seconds, "in" waits for input, "queued" makes it wait for its turn until the word
// "begin", and any other word is output, where _ stands for the end of a line. A word that begins
// with ! goes to stderr. The exit status is 9.
func Script(ctx context.Context, x *Exec) int {
	for _, word := range strings.Fields(x.Params.Command) {
		var seconds float64
		switch n, _ := fmt.Sscanf(word, "%g", &seconds); {
		case n == 1:
			select {
			case <-time.After(time.Duration(seconds * float64(time.Second))):
			case <-ctx.Done():
				return 0
			}
		case word == "in":
			x.WaitsForInput(&api.Process{PID: 42, Command: "cat"})
		case word == "queued":
			x.Queue()
		case word == "begin":
			x.Begin()
		case word[0] == '!':
			x.Stderr(strings.ReplaceAll(word[1:], "_", "\n"))
		default:
			x.Stdout(strings.ReplaceAll(word, "_", "\n"))
		}
	}
	return 9
}
