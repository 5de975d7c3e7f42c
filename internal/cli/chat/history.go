package chat

import "strings"

// history is the list of earlier messages, for the arrow keys.
type history struct{ e *editor }

// Add adds a line. The lines of a message of which each but the last ends with a backslash are one
// entry, as if Alt-Enter had separated them.
func (h history) Add(line string) {
	e := h.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.quiet {
		return
	}
	if e.continues && len(e.past) > 0 {
		line = strings.TrimSuffix(e.past[0], `\`) + lineBreak + line
		e.past = e.past[1:]
	}
	e.continues = strings.HasSuffix(e.expandLocked(line), `\`)
	if strings.TrimSpace(line) != "" && (len(e.past) == 0 || e.past[0] != line) {
		e.past = append([]string{line}, e.past...)
	}
}

// dropPart makes the next line the first one of a message.
func (h history) dropPart() {
	h.e.mu.Lock()
	h.e.continues = false
	h.e.mu.Unlock()
}

// Len returns the number of messages.
func (h history) Len() int {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return len(h.e.past)
}

// At returns a message; 0 is the newest.
func (h history) At(i int) string {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return h.e.past[i]
}
