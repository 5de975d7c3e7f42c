package cast

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// maxLine bounds one line of a recording, so that a file that is no recording does not fill the memory.
const maxLine = 64 << 20

// Reader reads a recording of version 2 or 3. It is used by one goroutine at a time.
type Reader struct {
	in        *bufio.Reader
	header    Header
	lines     int // read until now
	at        time.Duration
	truncated bool
}

// NewReader reads the header.
func NewReader(r io.Reader) (*Reader, error) {
	c := &Reader{in: bufio.NewReader(r)}
	line, err := c.line()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errors.New("not an asciicast: it is empty")
	}
	return c, c.readHeader(line)
}

// Header returns the header of the recording.
func (c *Reader) Header() Header { return c.header }

// Truncated reports whether the recording breaks off inside its last line, as that of a
// machine that lost its power. Next has returned io.EOF then.
func (c *Reader) Truncated() bool { return c.truncated }

// Next returns the next event, and io.EOF after the last.
func (c *Reader) Next() (Event, error) {
	for {
		line, err := c.line()
		if err != nil && !errors.Is(err, io.EOF) {
			return Event{}, err
		}
		last := err != nil
		// Version 3 has comments.
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			if last {
				return Event{}, io.EOF
			}
			continue
		}
		e, err := c.event(line)
		if err != nil {
			if last { // a line without an end was not written to its end
				c.truncated = true
				return Event{}, io.EOF
			}
			return Event{}, fmt.Errorf("line %d: %w", c.lines, err)
		}
		return e, nil
	}
}

// Copy writes the rest of the recording in version 3, also if it was read in version 2.
func (c *Reader) Copy(to io.Writer) error {
	w, err := NewWriter(to, c.header, 0)
	if err != nil {
		return err
	}
	w.begun = time.Unix(0, 0) // whenever it was
	for {
		e, err := c.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = w.event(w.begun.Add(e.At), e.Code, e.Data)
		}
		if err != nil {
			return err
		}
	}
}

// line returns the next line, and io.EOF together with one that has no end.
func (c *Reader) line() ([]byte, error) {
	var line []byte
	c.lines++
	for {
		part, err := c.in.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, fmt.Errorf("line %d: has more than %d bytes", c.lines, maxLine)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (c *Reader) readHeader(line []byte) error {
	var h struct {
		Version int `json:"version"`
		Term    struct {
			Cols int    `json:"cols"`
			Rows int    `json:"rows"`
			Type string `json:"type"`
			// A theme that cannot be read is no reason not to read the recording.
			Theme json.RawMessage `json:"theme"`
		} `json:"term"`
		Theme     json.RawMessage   `json:"theme"`
		Width     int               `json:"width"`
		Height    int               `json:"height"`
		Timestamp float64           `json:"timestamp"`
		IdleLimit float64           `json:"idle_time_limit"`
		Command   string            `json:"command"`
		Title     string            `json:"title"`
		Env       map[string]string `json:"env"`
		HasInput  bool              `json:"input"`
	}
	if first := bytes.TrimSpace(line)[0]; first != '{' {
		return errors.New("not an asciicast: the first line is not a header, which is a JSON object")
	}
	if err := json.Unmarshal(line, &h); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return fmt.Errorf("not an asciicast: in the first line, %s is of the wrong type: %s", wrong.Field, wrong.Value)
		}
		// Version 1 is one object of many lines.
		one := json.NewDecoder(io.LimitReader(io.MultiReader(bytes.NewReader(line), c.in), maxLine))
		if h.Version = 0; one.Decode(&h) != nil || h.Version != 1 {
			return fmt.Errorf("not an asciicast: the first line is not a header: %w", err)
		}
	}
	c.header = Header{
		Version: h.Version, Cols: h.Term.Cols, Rows: h.Term.Rows, Term: h.Term.Type,
		Title: h.Title, Command: h.Command, Env: h.Env, HasInput: h.HasInput, IdleLimit: seconds(h.IdleLimit),
	}
	switch h.Version {
	case 3:
		c.header.Theme = readTheme(h.Term.Theme)
	case 2:
		c.header.Theme = readTheme(h.Theme)
		c.header.Cols, c.header.Rows, c.header.Term = h.Width, h.Height, h.Env["TERM"]
	case 0:
		return errors.New("not an asciicast: the first line has no version")
	default:
		return fmt.Errorf("asciicast of version %d: only 2 and 3 can be read", h.Version)
	}
	if h.Timestamp > 0 && h.Timestamp < 1e11 {
		c.header.Time = time.Unix(int64(h.Timestamp), 0)
	}
	if c.header.Cols < 1 || c.header.Rows < 1 {
		return fmt.Errorf("not an asciicast: a size of %dx%d", c.header.Cols, c.header.Rows)
	}
	return nil
}

// readTheme is a theme, if text is one.
func readTheme(text json.RawMessage) *Theme {
	var t *Theme
	if len(text) == 0 || json.Unmarshal(text, &t) != nil {
		return nil
	}
	return t
}

func (c *Reader) event(line []byte) (e Event, err error) {
	var parts []json.RawMessage
	if line[0] != '[' {
		return e, errors.New("not an event, which is a JSON array")
	}
	if err := json.Unmarshal(line, &parts); err != nil {
		return e, fmt.Errorf("not an event: %w", err)
	}
	if len(parts) < 3 {
		return e, errors.New("not an event: has fewer than three parts")
	}
	var s float64
	for i, part := range []struct {
		what string
		into any
	}{{"time is not a number", &s}, {"code is not a string", &e.Code}, {"data is not a string", &e.Data}} {
		if json.Unmarshal(parts[i], part.into) != nil || string(parts[i]) == "null" {
			return e, fmt.Errorf("not an event: its %s", part.what)
		}
	}
	// Version 2 has the time since the beginning, version 3 that since the event before.
	// Neither goes back.
	d := seconds(s)
	if c.header.Version == 2 {
		c.at = max(c.at, d)
	} else {
		c.at = min(c.at, math.MaxInt64-d) + d
	}
	e.At = c.at
	return e, nil
}

// seconds is a duration of 0 or more, as long as one can be.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	// In microseconds, as times are written: a float is not exact below.
	if us := math.Round(s * 1e6); us < math.MaxInt64/1e3-1 {
		return time.Duration(us) * time.Microsecond
	}
	return math.MaxInt64
}
