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

// unquoted returns a text without the characters that quote: 'rm' and \rm are rm.
var unquoted = strings.NewReplacer("$'", "", `$"`, "", "'", "", `"`, "", `\`, "").Replace

// beforeCommand matches text before a nested command: a shell with the option that takes a script,
// or a keyword.
var beforeCommand = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:(?:sh|bash|zsh|dash|ksh|ash|fish|su)["']?\s(?:[^` + separators + `]*?\s)?["']?-[A-Za-z]*c[A-Za-z]*["'\s]|(?:then|else|do)\s)`)
})

// runs reports whether a pattern matches one command, or several in a row, of a command line or of
// a shell's script. It does not parse quotes as a shell does: a rule that denies or asks may match
// too much, but not too little.
func runs(pattern, line string) bool {
	line = oneLine.Replace(line)
	for i, way := range []func(string) string{strings.Clone, singleBlanks, unquoted} {
		p, s := way(pattern), way(line)
		if i > 0 && p == pattern && s == line {
			continue
		}
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
	for i := range len(s) {
		if starts[i] && !atEdge(true, s[i]) {
			startsBehind(starts, s, i)
		}
	}
	return starts
}

// prefixWord matches a word that may stand before a command and its arguments: a variable, a
// redirection, a keyword, or a program that runs another.
var prefixWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[A-Za-z_]\w*\+?=.*|[0-9]*[<>].*|[!{]|if|elif|while|until|coproc|` +
		`builtin|busybox|command|doas|env|eval|exec|ionice|nice|nohup|setsid|stdbuf|strace|sudo|time|timeout|watch|xargs)$`)
})

// duration matches an argument of timeout and the like.
var duration = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9.]+[smhd]?$`) })

// mostPrefixes bounds how many words behind a program that runs another may be its options.
const mostPrefixes = 20

// startsBehind marks where a command may start behind the beginning of the word at i: /bin/rm, A=1 rm
// and sudo -u me rm are rm. TRL does not know which options of a program have a value, so the
// command may start at the word behind an option and at the one after that.
func startsBehind(starts []bool, s string, i int) {
	end := wordEnd(s, i)
	word := s[i:end]
	prefix := prefixWord().MatchString(word)
	if slash := strings.LastIndexByte(word, '/'); slash >= 0 && !prefix {
		starts[i+slash+1] = true
	}
	if !prefix {
		return
	}
	value := strings.HasSuffix(word, "<") || strings.HasSuffix(word, ">")
	for range mostPrefixes {
		for end < len(s) && (s[end] == ' ' || s[end] == '\t') {
			end++
		}
		if starts[end] = true; end == len(s) {
			return
		}
		i, end = end, wordEnd(s, end)
		switch word := unquoted(s[i:end]); {
		case strings.HasPrefix(word, "-"):
			value = !strings.Contains(word, "=")
		case value || duration().MatchString(word):
			value = false
		default:
			return // if it is a prefix itself, its own turn comes
		}
	}
}

// wordEnd returns the end of the word at i. A blank in quotes is a part of the word.
func wordEnd(s string, i int) int {
	for ; i < len(s) && strings.IndexByte(separators+" \t", s[i]) < 0; i++ {
		if s[i] == '\'' || s[i] == '"' {
			i += strings.IndexByte(s[i+1:], s[i]) + 1
		}
	}
	return i
}

// atEdge reports whether a command may start or end on this side of a character, if edge says
// whether it may on the other side.
func atEdge(edge bool, c byte) bool {
	return strings.IndexByte(separators, c) >= 0 || edge && strings.IndexByte(" \t\"'", c) >= 0
}
