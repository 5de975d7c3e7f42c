package dialogue

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// mentions reports whether a pattern matches a part of a text that starts and ends at word
// boundaries. Such a text is a sentence with a command in it, or a command with a remark behind it:
// "Run `rm -rf x`", "rm -rf x [in /tmp] (clean up)".
func mentions(pattern, text string) bool {
	for _, way := range []func(string) string{strings.Clone, singleBlanks, cleanPath, unquoted} {
		p, s := way(pattern), way(text)
		fit := make([]bool, len(s)+1)
		for i := range fit {
			fit[i] = wordEdge(s, i)
		}
		match(fit, p, s, "")
		for i, ends := range fit {
			if ends && wordEdge(s, i) {
				return true
			}
		}
	}
	return false
}

// wordEdge reports whether position i is a word boundary.
func wordEdge(s string, i int) bool {
	return i == 0 || i == len(s) || !wordByte(s[i-1]) || !wordByte(s[i])
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// inputTexts returns all texts in the input of a tool. A list of words is also joined to one text,
// because it may be a command.
func inputTexts(input json.RawMessage) []string {
	var value any
	if json.Unmarshal(input, &value) != nil {
		return nil
	}
	var texts []string
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			words := make([]string, 0, len(v))
			for _, element := range v {
				if word, ok := element.(string); ok {
					words = append(words, word)
				}
				walk(element)
			}
			texts = append(texts, strings.Join(words, " "))
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(v[key])
			}
		}
	}
	walk(value)
	return texts
}
