package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/trl-dev/trl/api"
)

// Message is a parsed line of a server: an answer or a push. Its slices share memory with the
// line.
type Message struct {
	// ID is the id of an answer; nil or null if the server could not parse the request's id.
	ID    json.RawMessage
	Data  json.RawMessage
	Error *api.Error
	// Event is set for a push. Then all other fields except Raw are empty.
	Event *api.StreamEvent
	// Raw is the number of raw bytes that follow the line of a push.
	Raw int
	// TakesRaw is set in an answer if the server accepts raw bytes after requests; see
	// RawAnswer.
	TakesRaw bool
}

// MaxRaw limits the raw bytes that follow one push.
const MaxRaw = 8 << 20

// ParseMessage parses a line of a server. It does not check the JSON of Data: the caller does so
// by decoding it.
func ParseMessage(line []byte) (Message, error) {
	var (
		m         Message
		ok, event bool
		failure   []byte
	)
	if !members(line, func(key, value []byte) {
		switch string(key) {
		case "id":
			m.ID = value
		case "ok":
			ok = string(value) == "true"
		case "data":
			m.Data = value
		case "error":
			failure = value
		case "raw":
			m.TakesRaw = string(value) == "true"
		case "stream_id":
			event = true
		}
	}) {
		return m, errors.New("a line that is not a JSON object")
	}
	if event && m.ID == nil {
		ev, raw, err := parseEvent(line)
		if err != nil {
			return Message{}, fmt.Errorf("push: %w", err)
		}
		return Message{Event: ev, Raw: raw}, nil
	}
	if ok {
		return m, nil
	}
	m.Error = &api.Error{}
	if err := json.Unmarshal(failure, m.Error); err != nil || m.Error.Code == "" {
		m.Error = api.Errorf(api.CodeInternal, "the answer has neither data nor a proper error")
	}
	return m, nil
}

// parseEvent decodes a push. Nearly all pushes are pieces of output, which have only the fields
// handled here; encoding/json decodes the others.
func parseEvent(line []byte) (_ *api.StreamEvent, raw int, _ error) {
	ev := &api.StreamEvent{}
	simple, more := true, false
	text := func(to *string, v []byte) {
		s, ok := unquote(v)
		*to, simple = s, simple && ok
	}
	number := func(v []byte) int64 {
		n, err := strconv.ParseInt(string(v), 10, 64)
		simple = simple && err == nil
		return n
	}
	members(line, func(key, value []byte) {
		switch string(key) {
		case "stream_id":
			text(&ev.StreamID, value)
		case "seq":
			ev.Seq = number(value)
		case "type":
			text(&ev.Type, value)
		case "offset":
			n := number(value)
			ev.Offset = &n
		case "data":
			text(&ev.Data, value)
		case "data_base64":
			text(&ev.DataBase64, value)
		case "raw":
			n := number(value)
			if raw = int(n); n < 0 || n > MaxRaw {
				raw = -1
			}
		default:
			more = true
		}
	})
	if raw < 0 || raw > 0 && (!simple || more) {
		return nil, 0, errors.New("a wrong number of bytes")
	}
	if simple && !more {
		return ev, raw, nil
	}
	if simple && ev.Type == api.EventExit && ev.Offset == nil && ev.Data == "" && ev.DataBase64 == "" {
		// The remaining fields are those of the outcome. encoding/json would first analyse the
		// type for all kinds of pushes, which takes longer than the rest of a short trl run.
		return exitEvent(ev, line)
	}
	ev = &api.StreamEvent{}
	if err := json.Unmarshal(line, ev); err != nil {
		return nil, 0, err
	}
	return ev, 0, nil
}

// exitEvent decodes the outcome into a push of type exit.
func exitEvent(ev *api.StreamEvent, line []byte) (*api.StreamEvent, int, error) {
	ev.ExecOutcome = &api.ExecOutcome{}
	return ev, 0, json.Unmarshal(line, ev.ExecOutcome)
}
