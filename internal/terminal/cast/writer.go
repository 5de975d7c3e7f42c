package cast

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// ErrLimit says that the recording has reached its maximum size.
var ErrLimit = errors.New("the recording has reached its size limit")

// Writer writes a recording of version 3. It is safe for concurrent use. Events are written in
// the order of the calls, each with one Write of whole lines, so a program that reads the file
// while it grows never sees half of a line for long.
//
// An event never ends inside a character: the first bytes of a character wait for the rest.
// Each byte that is not UTF-8 becomes U+FFFD.
//
// The first error is permanent: nothing is written after it, and every later call returns it.
// It does not stop the recorded program.
type Writer struct {
	w     io.Writer
	limit int64

	mu     sync.Mutex
	size   int64             // guarded by mu; bytes written
	begun  time.Time         // guarded by mu
	last   int64             // guarded by mu; microseconds from begun to the last event
	begins map[string][]byte // guarded by mu; by code: the first bytes of a character
	line   []byte            // guarded by mu; reused
	err    error             // guarded by mu
}

// NewWriter writes the header. A limit above 0 bounds the bytes of the recording.
func NewWriter(w io.Writer, h Header, limit int64) (*Writer, error) {
	line, err := headerLine(h)
	if err != nil {
		return nil, err
	}
	c := &Writer{w: w, limit: limit, begun: h.Time, begins: map[string][]byte{}}
	return c, c.write(line)
}

// headerLine is the header as version 3 has it.
func headerLine(h Header) ([]byte, error) {
	type term struct {
		Cols  int    `json:"cols"`
		Rows  int    `json:"rows"`
		Type  string `json:"type,omitempty"`
		Theme *Theme `json:"theme,omitempty"`
	}
	line, err := json.Marshal(struct {
		Version   int               `json:"version"`
		Term      term              `json:"term"`
		Timestamp int64             `json:"timestamp,omitempty"`
		IdleLimit float64           `json:"idle_time_limit,omitempty"`
		Command   string            `json:"command,omitempty"`
		Title     string            `json:"title,omitempty"`
		Env       map[string]string `json:"env,omitempty"`
		HasInput  bool              `json:"input,omitempty"` // not of the format; players ignore it
	}{
		Version: 3, Term: term{Cols: h.Cols, Rows: h.Rows, Type: h.Term, Theme: h.Theme}, Timestamp: unix(h.Time), IdleLimit: h.IdleLimit.Seconds(),
		Command: h.Command, Title: h.Title, Env: h.Env, HasInput: h.HasInput,
	})
	return append(line, '\n'), err
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// Output writes what the terminal was given to show.
func (c *Writer) Output(at time.Time, p []byte) error { return c.text(at, Output, p) }

// Input writes an event of typed input.
func (c *Writer) Input(at time.Time, p []byte) error { return c.text(at, Input, p) }

// Resize writes that the terminal has another size.
func (c *Writer) Resize(at time.Time, cols, rows int) error {
	return c.event(at, Resize, fmt.Sprintf("%dx%d", cols, rows))
}

// Marker writes a label for this moment.
func (c *Writer) Marker(at time.Time, label string) error { return c.event(at, Marker, label) }

// Exit writes the exit status of the program, and before it the bytes of characters that were never
// finished.
func (c *Writer) Exit(at time.Time, status int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, code := range []string{Input, Output} {
		if rest := c.begins[code]; len(rest) > 0 {
			delete(c.begins, code)
			if err := c.addLocked(at, code, rest); err != nil {
				return err
			}
		}
	}
	return c.addLocked(at, Exit, []byte(strconv.Itoa(status)))
}

// Size is how many bytes were written.
func (c *Writer) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// Err is the error that ended the recording; nil while it continues.
func (c *Writer) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Writer) event(at time.Time, code, data string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addLocked(at, code, []byte(data))
}

// text writes an event of bytes that may begin and end anywhere.
func (c *Writer) text(at time.Time, code string, p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if begin := c.begins[code]; len(begin) > 0 {
		p = append(begin, p...)
	}
	whole := len(p) - unfinished(p)
	// A copy: p is the caller's.
	c.begins[code] = append([]byte(nil), p[whole:]...)
	p = p[:whole]
	for len(p) > 0 {
		n := len(p)
		if c.limit > 0 && c.size+int64(maxEscape*n) > c.limit {
			// In pieces near the limit: an event that does not fit is left out whole.
			n = min(n, nearLimit)
			n -= unfinished(p[:n])
		}
		if err := c.addLocked(at, code, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return c.err
}

const (
	maxEscape = 6   // bytes of JSON for one byte, as in \u0000
	nearLimit = 512 // bytes of an event that may be the last
)

// unfinished is how many bytes at the end of p are the beginning of a character.
func unfinished(p []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(p)); n++ {
		tail := p[len(p)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// addLocked writes one event. Intervals are differences of rounded times, so rounding
// errors do not add up.
func (c *Writer) addLocked(at time.Time, code string, data []byte) error {
	if c.err != nil {
		return c.err
	}
	if c.begun.IsZero() {
		c.begun = at
	}
	now := max(c.last, at.Sub(c.begun).Microseconds())
	c.line = append(c.line[:0], '[')
	c.line = strconv.AppendInt(c.line, (now-c.last)/1e6, 10)
	c.line = fmt.Appendf(c.line, ".%06d, %q, ", (now-c.last)%1e6, code)
	c.line = append(appendJSON(c.line, data), "]\n"...)
	c.last = now
	return c.writeLocked(c.line)
}

func (c *Writer) write(line []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writeLocked(line)
}

// writeLocked writes a whole line or nothing, as far as the file allows it.
func (c *Writer) writeLocked(line []byte) error {
	if c.limit > 0 && c.size+int64(len(line)) > c.limit {
		c.err = ErrLimit
		return c.err
	}
	n, err := c.w.Write(line)
	c.size += int64(n)
	c.err = err
	if cap(c.line) > keepLine {
		c.line = nil
	}
	return err
}

// keepLine is how large the buffer for a line stays.
const keepLine = 256 << 10

// appendJSON appends a string of JSON. It escapes no more than JSON asks for.
func appendJSON(dst, data []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for len(data) > 0 {
		if b := data[0]; b < utf8.RuneSelf {
			switch {
			case b == '"' || b == '\\':
				dst = append(dst, '\\', b)
			case b == '\n':
				dst = append(dst, '\\', 'n')
			case b == '\r':
				dst = append(dst, '\\', 'r')
			case b == '\t':
				dst = append(dst, '\\', 't')
			case b < 0x20 || b == 0x7f:
				dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
			default:
				dst = append(dst, b)
			}
			data = data[1:]
			continue
		}
		r, n := utf8.DecodeRune(data)
		dst = utf8.AppendRune(dst, r) // U+FFFD for a byte that is none
		data = data[n:]
	}
	return append(dst, '"')
}
