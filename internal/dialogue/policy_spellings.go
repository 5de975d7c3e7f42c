package dialogue

import (
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/trl-dev/trl/api"
)

// matches reports whether the pattern of a rule matches a subject or, if the rule does not allow,
// another spelling of the same path or address. A rule that allows takes the subject as it is.
func matches(rule api.DialogueRule, kind, subject, dir string) bool {
	if describes(rule, kind, subject) {
		return true
	}
	return rule.Action != "allow" && kind != "command" && respelled(rule, kind, subject, dir)
}

// respelled reports whether the pattern of a rule that denies or asks, or another spelling of it,
// matches another spelling of a subject.
func respelled(rule api.DialogueRule, kind, subject, dir string) bool {
	names := append([]string{subject}, pathSpellings(kind, subject, dir)...)
	if typed := fromHome(strings.TrimSpace(subject)); typed != subject {
		names = append(append(names, typed), pathSpellings(kind, typed, dir)...)
	}
	names = append(names, addressSpellings(subject)...)
	patterns := append([]string{rule.Pattern}, fileURLPaths(rule.Pattern)...)
	if full := fromHome(rule.Pattern); full != rule.Pattern {
		patterns = append(patterns, full)
	}
	if isAddress(subject) {
		patterns = append(patterns, plainAddress(rule.Pattern, `/?#\`))
	}
	for _, pattern := range patterns {
		for _, name := range names {
			if describes(api.DialogueRule{Pattern: pattern, Action: rule.Action}, "path", name) {
				return true
			}
		}
	}
	return false
}

// fromHome returns a path below the home directory as an absolute path. Agents such as Claude Code
// expand ~ in a path, and ignore blanks around it.
func fromHome(p string) string {
	if p != "~" && !strings.HasPrefix(p, "~/") {
		return p
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return p
	}
	return strings.TrimSuffix(home, "/") + p[1:]
}

// mentionsPlace reports whether a word of a text for people is another spelling of a path or an
// address that the pattern of a rule matches.
func mentionsPlace(rule api.DialogueRule, text, dir string) bool {
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune(" \t\r\n\"'`()<>[]{},;|&=", c) }) {
		if strings.Contains(word, "/") && respelled(rule, "", word, dir) {
			return true
		}
	}
	return false
}

// pathSpellings returns other spellings of a path: an absolute path for a relative one, the relative
// path of a file in dir, and the path in a file URL. A text of an unknown kind is a relative path only
// if it has a slash and no blank.
func pathSpellings(kind, subject, dir string) []string {
	given := fileURLPaths(subject)
	paths := given
	if len(given) == 0 {
		if kind != "path" && (kind != "" || isAddress(subject) || !strings.Contains(subject, "/") || strings.ContainsAny(subject, " \t\r\n")) {
			return nil
		}
		given = []string{subject}
	}
	if !path.IsAbs(dir) {
		return paths
	}
	for _, p := range given {
		full := cleanPath(p)
		if !path.IsAbs(p) {
			full = cleanPath(strings.TrimSuffix(dir, "/") + "/" + p)
			paths = append(paths, full)
		}
		if below, ok := strings.CutPrefix(full, strings.TrimSuffix(path.Clean(dir), "/")+"/"); ok && below != "" {
			paths = append(paths, below)
		}
	}
	return paths
}

// fileURLPaths returns the paths that programs read from a file URL; none for another text. They
// differ in whether they decode it, and what they take as its host.
func fileURLPaths(s string) (paths []string) {
	s = strings.TrimSpace(s)
	if len(s) < len("file:") || !strings.EqualFold(s[:len("file:")], "file:") {
		return nil
	}
	s = s[len("file:"):]
	if rest, ok := strings.CutPrefix(s, "//"); ok {
		if _, p, ok := strings.Cut(rest, "/"); ok {
			s = "/" + p
		}
		if !strings.HasPrefix(rest, "/") {
			paths = append(paths, rest)
		}
	}
	paths = append(paths, s)
	for _, p := range paths {
		if end := strings.IndexAny(p, "?#"); end >= 0 {
			paths = append(paths, p[:end])
		}
	}
	for _, p := range paths {
		if decoded, err := url.PathUnescape(p); err == nil && decoded != p {
			paths = append(paths, decoded)
		}
	}
	return paths
}

// webAddress matches the beginning of an address. Browsers accept any number of slashes of either
// kind after these schemes.
var webAddress = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?i:(https?|wss?|ftp):[/\\]*)`) })

// isAddress reports whether a text is an address.
func isAddress(s string) bool {
	return strings.Contains(s, "://") || webAddress().MatchString(strings.TrimSpace(s))
}

// defaultPorts are the ports that an address without a port has.
var defaultPorts = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443", "ftp": "21"}

// addressSpellings returns other spellings of an address: plain, and with its default port, which a
// pattern such as https://example.com:*/* needs. Programs do not agree on whether a backslash ends
// the host.
func addressSpellings(s string) (all []string) {
	if !isAddress(s) {
		return nil
	}
	s = strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(strings.TrimSpace(s))
	if found := webAddress().FindStringSubmatch(s); found != nil {
		s = found[1] + "://" + s[len(found[0]):]
	}
	for _, ends := range []string{`/?#\`, `/?#`} {
		plain := plainAddress(s, ends)
		all = append(all, plain)
		scheme, rest, _ := strings.Cut(plain, "://")
		host, where := rest, ""
		if end := strings.IndexAny(rest, ends); end >= 0 {
			host, where = rest[:end], rest[end:]
		}
		if port := defaultPorts[scheme]; port != "" && !strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":") {
			all = append(all, scheme+"://"+host+":"+port+where)
		}
	}
	return all
}

// plainAddress returns an address, or a pattern for addresses, without what makes no difference: the
// case of scheme and host, a login, a default port, and a dot at the end of the host.
func plainAddress(s, ends string) string {
	scheme, rest, ok := strings.Cut(s, "//")
	if !ok {
		scheme, rest = "", s
	}
	host, where := rest, ""
	if end := strings.IndexAny(rest, ends); end >= 0 {
		host, where = rest[:end], rest[end:]
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	if decoded, err := url.PathUnescape(host); err == nil {
		host = decoded
	}
	scheme, host = strings.ToLower(scheme), strings.ToLower(host)
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && strings.Trim(host[colon+1:], "0123456789") == "" {
		port, usual := strings.TrimLeft(host[colon+1:], "0"), defaultPorts[strings.TrimSuffix(scheme, ":")]
		// A pattern may leave the scheme open.
		if port == "" || port == usual || usual == "" && (port == "80" || port == "443") && (!ok || strings.Contains(scheme, "*")) {
			host, port = host[:colon], ""
		}
		if port != "" {
			host = strings.TrimSuffix(host[:colon], ".") + ":" + port
		}
	}
	host = strings.TrimSuffix(host, ".")
	if where != "" && where[0] != '/' && ok {
		where = "/" + strings.TrimPrefix(where, `\`) // https://host?query has the path /
	}
	if !ok {
		return host + where
	}
	return scheme + "//" + host + where
}
