package dialogue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/trl-dev/trl/api"
)

// cause is the part of a recorded event that says which line caused it.
type cause struct {
	seq      int64
	kind     api.DialogueEventType
	epoch    int
	offset   int64 // of the line; -1 if the dialogue made the event itself
	itemID   string
	unparsed string // why TRL does not understand the line
}

// isBeyond reports whether an event is of a later line, or of a later process.
func (c *cause) isBeyond(epoch int, offset int64) bool {
	return c.epoch > epoch || c.epoch == epoch && c.offset > offset
}

// readCause reads the beginning of a recorded event. The rest can be very long, and may be cut off.
func readCause(text []byte) (cause, error) {
	c, in := cause{offset: -1}, json.NewDecoder(bytes.NewReader(text))
	err := eachField(in, func(name string) (more bool, err error) {
		switch name {
		case "seq":
			return true, in.Decode(&c.seq)
		case "type":
			return true, in.Decode(&c.kind)
		case "epoch":
			return true, in.Decode(&c.epoch)
		case "offset":
			return true, in.Decode(&c.offset)
		case "at", "scope", "native_id":
			return true, in.Decode(new(json.RawMessage))
		case "item", "delta":
			c.itemID = fieldOf(in, "item_id")
		case "request", "task":
			c.itemID = fieldOf(in, "tool_call_id")
		case "unparsed":
			c.unparsed = fieldOf(in, "why")
		}
		return false, nil // the fields before this one are in every event
	})
	return c, err
}

// fieldOf returns the text of a field of a JSON object, or "" if the object has none.
func fieldOf(in *json.Decoder, field string) (text string) {
	_ = eachField(in, func(name string) (bool, error) {
		if name == field {
			return false, in.Decode(&text)
		}
		return true, in.Decode(new(json.RawMessage))
	})
	return text
}

var errNoObject = errors.New("not a JSON object")

// eachField calls visit with the name of each field of a JSON object, until visit returns false.
// visit must read the value.
func eachField(in *json.Decoder, visit func(name string) (more bool, err error)) error {
	if begin, err := in.Token(); err != nil || begin != json.Delim('{') {
		return errors.Join(errNoObject, err)
	}
	for in.More() {
		token, err := in.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if more, err := visit(name); err != nil || !more {
			return err
		}
	}
	return nil
}

// causes reads the causes of the recorded events.
type causes struct {
	file *os.File
	in   *bufio.Reader
}

// causesSince returns the causes of the events from a number on, or from some before it.
func (r *record) causesSince(seq int64) (*causes, error) {
	f, err := os.Open(filepath.Join(r.dir, eventsFile))
	if errors.Is(err, os.ErrNotExist) {
		return &causes{in: bufio.NewReader(bytes.NewReader(nil))}, nil
	}
	if err != nil {
		return nil, err
	}
	at, _ := r.offsetBefore(seq)
	size, _, _, _ := r.state()
	return &causes{f, bufio.NewReaderSize(io.NewSectionReader(f, at, size-at), 64<<10)}, nil
}

func (c *causes) close() { c.file.Close() }

// next returns the next cause; nil at the end.
func (c *causes) next() (*cause, error) {
	text, _, _, err := readLine(c.in, typedBytes)
	if err == io.EOF {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := readCause(text)
	if err != nil && len(text) == typedBytes { // it is cut off in an id; what says where it belongs comes before
		err = nil
	}
	return &found, err
}

// joinEvents adds to lines of stdout the events that they caused.
func (d *Dialogue) joinEvents(epoch int, lines []api.DialogueLine) error {
	if len(lines) == 0 {
		return nil
	}
	if err := d.index(); err != nil {
		return err
	}
	first, last := lines[0].Offset, lines[len(lines)-1].Offset
	seq, err := d.firstCausedBy(epoch, first)
	if err != nil {
		return err
	}
	known, err := d.record.causesSince(seq)
	if err != nil {
		return err
	}
	defer known.close()
	for {
		c, err := known.next()
		if err != nil || c == nil || c.isBeyond(epoch, last) {
			return err
		}
		if c.epoch != epoch || c.offset < first {
			continue
		}
		i := sort.Search(len(lines), func(i int) bool { return lines[i].Offset > c.offset }) - 1
		lines[i].Events = append(lines[i].Events, api.DialogueLineNews{Seq: c.seq, Type: c.kind, ItemID: c.itemID})
		if c.unparsed != "" {
			lines[i].Unparsed = c.unparsed
		}
	}
}

// firstCausedBy returns the number of an event at or before the first that a line at this offset, or
// behind it, caused. The offsets of events only grow, so it searches the indexed ones.
func (d *Dialogue) firstCausedBy(epoch int, offset int64) (int64, error) {
	_, total, _, _ := d.record.state()
	var fault error
	n := sort.Search(int((total+markEvery-1)/markEvery), func(i int) bool {
		known, err := d.record.causesSince(int64(i)*markEvery + 1)
		if err != nil {
			fault = err
			return true
		}
		defer known.close()
		for {
			c, err := known.next()
			if err != nil || c == nil {
				fault = errors.Join(fault, err)
				return true
			}
			if c.epoch > epoch || c.epoch == epoch && c.offset >= 0 {
				return c.isBeyond(epoch, offset-1)
			}
		}
	})
	return int64(max(n-1, 0))*markEvery + 1, fault
}
