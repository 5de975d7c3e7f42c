package dialogue

import (
	"regexp"
	"strings"
)

// separators are the characters between which one command of a command line stands.
const separators = ";|&`()"

// oneLine makes a separator of each line end, except of one that continues the line.
var oneLine = strings.NewReplacer("\\\r\n", " ", "\\\n", " ", "\r", ";", "\n", ";")

// beforeCommand is text that stands before a command inside another one: a shell with the
// option that takes a script, or a keyword.
var beforeCommand = regexp.MustCompile(`\b(?:(?:sh|bash|zsh|dash|ksh|ash|fish)["']?\s(?:[^` + separators + `]*?\s)?["']?-[A-Za-z]*c[A-Za-z]*["'\s]|(?:then|else|do)\s)`)

// runs reports whether a pattern describes one command, or several in a row, of a command
// line or of the script of a shell. It does not read quotes as a shell does: a rule that
// denies or asks may match too much, but not too little.
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

// commandStarts are the places of a line where a command may start.
func commandStarts(s string) []bool {
	starts := make([]bool, len(s)+1)
	for _, found := range beforeCommand.FindAllStringIndex(s, -1) {
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

// atEdge reports whether a command may start or end beside a character, if it may on the other
// side of that character.
func atEdge(edge bool, c byte) bool {
	return strings.IndexByte(separators, c) >= 0 || edge && strings.IndexByte(" \t\"'", c) >= 0
}
