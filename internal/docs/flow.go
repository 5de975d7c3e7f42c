package docs

import "strings"

// Flow returns Markdown with each paragraph and each item on one line, so that a terminal of any
// width can break it anew. It leaves comments out.
func Flow(text string) string {
	var out []string
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	open, item := false, false // a paragraph or an item, which the next line may continue
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		inner := strings.TrimLeft(line, " ")
		switch {
		case fenceLine().MatchString(inner):
			n := fenced(lines[i:])
			out = append(out, lines[i:i+n]...)
			i, open = i+n-1, false
		case strings.HasPrefix(line, "<!--"):
			for i < len(lines)-1 && !strings.Contains(lines[i], "-->") {
				i++
			}
		case open && !interrupts([]string{inner}) && !strings.HasPrefix(inner, "|") && !(item && itemLine().MatchString(inner)):
			out[len(out)-1] += " " + inner
		default:
			out = append(out, line)
			open = inner != "" && !headingLine().MatchString(line) && !strings.HasPrefix(inner, "|") && !ruleLine().MatchString(line)
			item = open && itemLine().MatchString(inner)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// fenced returns the number of lines of the block of code that lines begin with.
func fenced(lines []string) int {
	open := fenceLine().FindStringSubmatch(strings.TrimLeft(lines[0], " "))
	for n := 1; n < len(lines); n++ {
		end := fenceLine().FindStringSubmatch(strings.TrimLeft(lines[n], " "))
		if end != nil && strings.HasPrefix(end[1], open[1]) && end[2] == "" {
			return n + 1
		}
	}
	return len(lines)
}
