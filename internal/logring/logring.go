// Package logring keeps the last records of the daemon's log in memory, for people who look at the
// daemon from afar. The log itself goes where it always goes.
package logring

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
)

// maxText is the most bytes of a text or a value that are kept.
const maxText = 2 << 10

// maxFields is the most fields of a record that are kept.
const maxFields = 32

// Ring has the last records. It is safe for concurrent use.
type Ring struct {
	mu      sync.Mutex
	records []record      // guarded by mu; the oldest first
	last    int64         // guarded by mu; number of the last record
	news    chan struct{} // guarded by mu; closed by the next record
}

type record struct {
	seq int64
	at  time.Time
	api.LogRecord
	level slog.Level
}

// New makes an empty Ring. Its numbers are greater than those of a Ring that was made before, so a
// reader can go on with that of the next daemon.
func New() *Ring { return &Ring{last: time.Now().UnixMicro(), news: make(chan struct{})} }

// Handler returns a handler that also keeps what it passes on to next.
func (r *Ring) Handler(next slog.Handler) slog.Handler { return &handler{ring: r, next: next} }

// handler keeps records and passes them on.
type handler struct {
	ring   *Ring
	next   slog.Handler
	group  string
	fields []api.LogField // of WithAttrs
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	fields := slices.Clone(h.fields)
	r.Attrs(func(a slog.Attr) bool {
		fields = appendField(fields, h.group, a)
		return true
	})
	h.ring.add(record{at: r.Time, level: r.Level, LogRecord: api.LogRecord{Level: word(r.Level), Text: short(r.Message), Fields: fields}})
	return h.next.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.next, c.fields = h.next.WithAttrs(attrs), slices.Clone(h.fields)
	for _, a := range attrs {
		c.fields = appendField(c.fields, h.group, a)
	}
	return &c
}

func (h *handler) WithGroup(name string) slog.Handler {
	c := *h
	c.next = h.next.WithGroup(name)
	if name != "" {
		c.group += name + "."
	}
	return &c
}

// secret matches the names of fields whose values are not kept.
var secret = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)panic|token|secret|passw|cookie|authorization|credential|(^|\.)(key|env)$|_key$`)
})

// appendField adds an attribute, and the attributes of a group one by one.
func appendField(fields []api.LogField, group string, a slog.Attr) []api.LogField {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, one := range v.Group() {
			fields = appendField(fields, group, one)
		}
		return fields
	}
	if a.Equal(slog.Attr{}) || len(fields) >= maxFields {
		return fields
	}
	name, text := group+a.Key, short(v.String())
	if secret().MatchString(name) && text != "" {
		text = "(not shown)"
	}
	return append(fields, api.LogField{Name: name, Value: text})
}

func short(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func word(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	}
	return "error"
}

func (r *Ring) add(one record) {
	if one.Fields == nil {
		one.Fields = []api.LogField{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	one.seq = r.last
	if len(r.records) >= api.MaxLogRecords {
		r.records = slices.Delete(r.records, 0, 1)
	}
	r.records = append(r.records, one)
	close(r.news)
	r.news = make(chan struct{})
}

// Stream is the stream of system.log. The parameters must be valid.
func (r *Ring) Stream(ctx context.Context, id string, p api.SystemLogParams) api.Stream {
	s := &stream{ring: r, id: id, params: p, after: p.AfterSeq}
	_ = s.level.UnmarshalText([]byte(p.Level)) // valid, or empty
	if p.Level == "" {
		s.level = slog.LevelDebug
	}
	limit := api.DefaultLogLimit
	switch {
	case p.AfterSeq > 0: // a reader that goes on misses nothing that is kept
		limit = api.MaxLogRecords
	case p.Limit != nil:
		limit = *p.Limit
	}
	s.after = r.before(s.after, limit, s.level)
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// before returns the least number, not less than after, behind which there are at most limit records of
// the level.
func (r *Ring) before(after int64, limit int, level slog.Level) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if after > r.last {
		after = 0 // the clock was set back between two daemons
	}
	for i, one := range slices.Backward(r.records) {
		if one.seq <= after {
			return after
		}
		if one.level < level {
			continue
		}
		if limit == 0 {
			return r.records[i].seq
		}
		limit--
	}
	return after
}

// stream is one reader. It has no goroutine. Only one goroutine at a time may call Recv; Close may be
// called at any time.
type stream struct {
	ring   *Ring
	id     string
	params api.SystemLogParams
	level  slog.Level
	ctx    context.Context
	cancel context.CancelFunc

	// Used by Recv alone.
	after int64
	ended bool
}

// Start is the immediate answer.
func (s *stream) Start() api.StreamStart { return api.StreamStart{StreamID: s.id, Seq: s.after} }

// Close ends the stream.
func (s *stream) Close() error {
	s.cancel()
	return nil
}

// Recv returns the next record. A reader that is too slow misses the oldest.
func (s *stream) Recv() (api.StreamEvent, error) {
	for {
		if s.ended {
			return api.StreamEvent{}, io.EOF
		}
		one, ok, news := s.ring.next(s.after, s.level)
		s.after = one.seq
		switch {
		case ok:
			at := one.at.UTC()
			return api.StreamEvent{StreamID: s.id, Seq: one.seq, Type: api.EventLog, At: &at, Log: &one.LogRecord}, nil
		case s.params.NoFollow:
			s.ended = true
			return api.StreamEvent{StreamID: s.id, Seq: s.after, Type: api.EventEnd}, nil
		}
		select {
		case <-news:
		case <-s.ctx.Done():
			return api.StreamEvent{}, s.ctx.Err()
		}
	}
}

// next returns the first record of the level after a number. If there is none, it returns only the number
// of the last record, and a channel that the next record closes.
func (r *Ring) next(after int64, level slog.Level) (record, bool, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, _ := slices.BinarySearchFunc(r.records, after+1, func(one record, seq int64) int { return cmp.Compare(one.seq, seq) })
	for _, one := range r.records[at:] {
		if one.level >= level {
			return one, true, nil
		}
	}
	return record{seq: max(after, r.last)}, false, r.news
}
