package wire

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
)

// Encoder writes lines into its own buffer. It does not escape the special characters of HTML,
// because output is for terminals and models.
type Encoder struct {
	b           []byte
	enc         *json.Encoder
	traceparent string
}

// keepEncoder is the largest buffer that is kept for reuse.
const keepEncoder = 256 << 10

var encoders = sync.Pool{New: func() any {
	e := &Encoder{b: make([]byte, 0, 1024)}
	e.enc = json.NewEncoder((*appender)(e))
	e.enc.SetEscapeHTML(false)
	return e
}}

// NewEncoder returns an empty Encoder. Release it when its bytes are no longer needed.
func NewEncoder() *Encoder { return encoders.Get().(*Encoder) }

// Release makes the Encoder and its buffer available for reuse.
func (e *Encoder) Release() {
	if cap(e.b) > keepEncoder {
		return
	}
	e.b, e.traceparent = e.b[:0], ""
	encoders.Put(e)
}

// Trace makes the requests that follow part of a trace, with a traceparent as W3C Trace Context defines
// it; "" for none.
func (e *Encoder) Trace(traceparent string) { e.traceparent = traceparent }

// Bytes returns the lines written so far. They are valid until Release.
func (e *Encoder) Bytes() []byte { return e.b }

// appender is the io.Writer of an Encoder's json.Encoder.
type appender Encoder

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// value appends the JSON of v without the line end that json.Encoder adds.
func (e *Encoder) value(v any) error {
	if err := e.enc.Encode(v); err != nil {
		return err
	}
	e.b = e.b[:len(e.b)-1]
	return nil
}

// Value writes v as a line. On an error, it writes nothing.
func (e *Encoder) Value(v any) error {
	if err := e.value(v); err != nil {
		return err
	}
	e.b = append(e.b, '\n')
	return nil
}

// Answer writes the answer to a request that succeeded. On an error, it writes nothing.
func (e *Encoder) Answer(id json.RawMessage, data any) error {
	start := len(e.b)
	e.id(id)
	e.b = append(e.b, `,"ok":true,"data":`...)
	if err := e.value(data); err != nil {
		e.b = e.b[:start]
		return err
	}
	e.b = append(e.b, "}\n"...)
	return nil
}

// RawAnswer is Answer that also announces that the client may send raw bytes after the lines of
// its requests on this connection.
func (e *Encoder) RawAnswer(id json.RawMessage, data any) error {
	if err := e.Answer(id, data); err != nil {
		return err
	}
	e.raw("true")
	return nil
}

// Error writes the answer to a request that failed.
func (e *Encoder) Error(id json.RawMessage, cause *api.Error) {
	start := len(e.b)
	e.id(id)
	e.b = append(e.b, `,"ok":false,"error":`...)
	if err := e.value(cause); err != nil { // the details cannot be encoded as JSON
		e.b = e.b[:start]
		e.Error(id, &api.Error{Code: cause.Code, Message: cause.Message})
		return
	}
	e.b = append(e.b, "}\n"...)
}

func (e *Encoder) id(id json.RawMessage) {
	e.b = append(e.b, `{"id":`...)
	if len(id) == 0 {
		e.b = append(e.b, "null"...)
		return
	}
	e.b = append(e.b, id...)
}

// Event writes one push of a stream. On an error, it writes nothing.
func (e *Encoder) Event(ev *api.StreamEvent) error {
	if !plain(ev) {
		return e.Value(ev)
	}
	// Most of the bytes that leave the daemon are pieces of output, and these have only the
	// following fields. Writing them by hand is several times faster.
	e.b = slices.Grow(e.b, len(ev.Data)+len(ev.Data)/16+len(ev.DataBase64)+256)
	e.b = append(e.b, `{"stream_id":`...)
	e.b = appendString(e.b, ev.StreamID)
	e.b = append(e.b, `,"seq":`...)
	e.b = strconv.AppendInt(e.b, ev.Seq, 10)
	e.b = append(e.b, `,"type":`...)
	e.b = appendString(e.b, ev.Type)
	e.b = append(e.b, `,"offset":`...)
	e.b = strconv.AppendInt(e.b, *ev.Offset, 10)
	e.b = append(e.b, `,"data":`...)
	e.b = appendString(e.b, ev.Data)
	if ev.DataBase64 != "" {
		e.b = append(e.b, `,"data_base64":`...)
		e.b = appendString(e.b, ev.DataBase64)
	}
	e.b = append(e.b, "}\n"...)
	return nil
}

// RawEvent writes a push of output without its data: n raw bytes follow the line. On an error, it
// writes nothing.
func (e *Encoder) RawEvent(ev *api.StreamEvent, n int) error {
	start := len(e.b)
	e.b = append(e.b, `{"stream_id":`...)
	e.b = appendString(e.b, ev.StreamID)
	e.b = append(e.b, `,"seq":`...)
	e.b = strconv.AppendInt(e.b, ev.Seq, 10)
	e.b = append(e.b, `,"type":`...)
	e.b = appendString(e.b, ev.Type)
	e.b = append(e.b, `,"offset":`...)
	if ev.Offset == nil {
		e.b = e.b[:start]
		return errors.New("a push of output without its offset")
	}
	e.b = strconv.AppendInt(e.b, *ev.Offset, 10)
	e.b = append(e.b, `,"raw":`...)
	e.b = strconv.AppendInt(e.b, int64(n), 10)
	e.b = append(e.b, "}\n"...)
	return nil
}

// plain reports whether an event is a piece of output that has only the fields that Event writes
// by hand.
func plain(ev *api.StreamEvent) bool {
	return (ev.Type == api.EventStdout || ev.Type == api.EventStderr || ev.Type == api.EventOutput) &&
		ev.Offset != nil && ev.Data != "" && ev.Stream == "" && ev.From == nil && ev.To == nil &&
		ev.Error == nil && ev.ExecOutcome == nil && ev.ViewerEvent == nil &&
		utf8.ValidString(ev.Data) && utf8.ValidString(ev.StreamID) && utf8.ValidString(ev.DataBase64)
}

// RawRequest is Request that also announces that the client accepts raw bytes after a push, and
// asks whether the daemon accepts them after a request. A daemon without raw bytes ignores both.
func (e *Encoder) RawRequest(id uint64, method string, params any) error {
	if err := e.Request(id, method, params); err != nil {
		return err
	}
	e.raw("true")
	return nil
}

// RequestWith is Request for a line that n raw bytes follow. It is only for daemons that have
// announced that they accept raw bytes; see RawAnswer.
func (e *Encoder) RequestWith(id uint64, method string, params any, n int) error {
	if err := e.Request(id, method, params); err != nil {
		return err
	}
	e.raw(strconv.Itoa(n))
	return nil
}

// raw adds the member "raw" to the last line, as its last member.
func (e *Encoder) raw(value string) {
	e.b = append(e.b[:len(e.b)-len("}\n")], `,"raw":`...)
	e.b = append(append(e.b, value...), "}\n"...)
}

// Request writes a request. On an error, it writes nothing.
func (e *Encoder) Request(id uint64, method string, params any) error {
	start := len(e.b)
	e.b = append(e.b, `{"id":"`...)
	e.b = strconv.AppendUint(e.b, id, 10)
	e.b = append(e.b, `","method":`...)
	if err := e.value(method); err != nil {
		e.b = e.b[:start]
		return err
	}
	if e.traceparent != "" {
		e.b = append(e.b, `,"traceparent":`...)
		e.b = appendString(e.b, e.traceparent)
	}
	e.b = append(e.b, `,"params":`...)
	if err := e.value(params); err != nil {
		e.b = e.b[:start]
		return err
	}
	e.b = append(e.b, "}\n"...)
	return nil
}

const hexDigits = "0123456789abcdef"

// escaped is true for each byte that a JSON string must escape.
var escaped = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// appendString appends valid UTF-8 as a JSON string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !escaped[c] {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		case '"', '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}
