package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Clean makes the control characters of a text visible, except newlines and tabs: an agent must
// not move the cursor of the person's terminal, set its title, or reverse its lines.
func Clean(s string) string {
	if strings.IndexFunc(s, unclean) < 0 && utf8.ValidString(s) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !unclean(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// unclean reports whether a character controls the terminal instead of being shown. Characters
// that join or vary others, as in emoji, are shown.
func unclean(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r == '\u200c', r == '\u200d':
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// Indent puts a margin before each line.
func Indent(margin, s string) string {
	if margin == "" || s == "" {
		return s
	}
	return margin + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+margin)
}

// FirstLine returns the first line of a text that is not blank.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

// CountLines counts the lines of a text; the last line may lack its newline.
func CountLines(s string) int {
	if s = strings.TrimSuffix(s, "\n"); s == "" {
		return 0
	}
	return strings.Count(s, "\n") + 1
}

// Lines splits a text into its lines, without their newlines.
func Lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// Shorten cuts s to n columns of a terminal. If it cuts, the last of them is "…".
func Shorten(s string, n int) string {
	p := []byte(s)
	if Columns(p) <= n {
		return s
	}
	end := 0
	for used := 0; end < len(p); {
		size, width := glyph(p[end:])
		if used += width; used >= n {
			break
		}
		end += size
	}
	return s[:end] + "…"
}

// Printable escapes the control characters of s, newlines included, so that s stays on one line
// and cannot control the terminal: a command or a directory may contain anything.
func Printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && size == 1, !unicode.IsPrint(r):
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// OrDash returns s, or "-" if s is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Span writes a duration with the one or two units that matter.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second != 0:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Seconds writes a number of seconds as a duration: 1m30s, 1.5s; 0 is "none".
func Seconds(s float64) string {
	if s == 0 {
		return "none"
	}
	return time.Duration(s * float64(time.Second)).String()
}

// BytesText writes a number of bytes with a unit.
func BytesText(n float64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%.0f B", n)
	}
	i := -1
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") + " " + units[i:i+1] + "iB"
}

// Plural writes a number with its noun, in the singular or the plural.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Prefixed returns s after a prefix, or "" if s is empty.
func Prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// TrimBlankRows removes the empty rows at the bottom of a screen.
func TrimBlankRows(screen string) string {
	if screen = strings.TrimRight(screen, "\n"); screen != "" {
		screen += "\n"
	}
	return screen
}
