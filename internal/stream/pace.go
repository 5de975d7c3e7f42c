package stream

import "time"

// How many bytes of output are fetched at once: more for a fast reader. A reader that stops
// reading holds little memory, so a thousand of them do no harm.
const (
	minRead = 64 << 10
	maxRead = 512 << 10
	// keepsUp is how long a fast reader takes for one fetch.
	keepsUp = 200 * time.Millisecond
)

// pace adapts the size of fetches to the reader.
type pace struct {
	limit int       // of the last fetch
	since time.Time // the time of the last fetch
}

// next returns how many bytes to fetch now.
func (p *pace) next() int {
	if time.Since(p.since) < keepsUp {
		p.limit = min(2*p.limit, maxRead)
	} else {
		p.limit = minRead
	}
	return p.limit
}

// fetched notes the time of a fetch.
func (p *pace) fetched() { p.since = time.Now() }
