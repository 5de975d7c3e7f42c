package chat

import "strings"

// history is the list of earlier messages, for the arrow keys.
type history struct{ e *editor }

// Add adds a line.
func (h history) Add(line string) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if strings.TrimSpace(line) != "" && !h.e.quiet && (len(h.e.past) == 0 || h.e.past[0] != line) {
		h.e.past = append([]string{line}, h.e.past...)
	}
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
