package dialogue

import (
	"regexp"
	"strings"
	"sync"
)

// separators are the characters that separate commands in a command line.
const separators = ";|&`()"

// oneLine replaces line ends by separators, except one that continues the line.
var oneLine = strings.NewReplacer("\\\r\n", " ", "\\\n", " ", "\r", ";", "\n", ";")

// beforeCommand matches text before a nested command: a shell with the option that takes a script,
// or a keyword.
var beforeCommand = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:(?:sh|bash|zsh|dash|ksh|ash|fish)["']?\s(?:[^` + separators + `]*?\s)?["']?-[A-Za-z]*c[A-Za-z]*["'\s]|(?:then|else|do)\s)`)
})

// runs reports whether a pattern matches one command, or several in a row, of a command line or of
// a shell's script. It does not parse quotes as a shell does: a rule that denies or asks may match
// too much, but not too little.
func runs(pattern, line string) bool {
	line = oneLine.Replace(line)
	for _, way := range []func(string) string{strings.Clone, singleBlanks} {
		p, s := way(pattern), way(line)
		fit := commandStarts(s)
		match(fit, p, s, "")
		for i, end := len(s), true; i >= 0; i-- {
			if end && fit[i] {
				return true
			}
			if i > 0 {
				end = atEdge(end, s[i-1])
			}
		}
	}
	return false
}

// commandStarts returns the positions in a line where a command may start.
func commandStarts(s string) []bool {
	starts := make([]bool, len(s)+1)
	for _, found := range beforeCommand().FindAllStringIndex(s, -1) {
		starts[found[1]] = true
	}
	start := true
	for i := range len(s) {
		start = start || starts[i]
		starts[i] = start
		start = atEdge(start, s[i])
	}
	return starts
}

// atEdge reports whether a command may start or end on this side of a character, if edge says
// whether it may on the other side.
func atEdge(edge bool, c byte) bool {
	return strings.IndexByte(separators, c) >= 0 || edge && strings.IndexByte(" \t\"'", c) >= 0
}
