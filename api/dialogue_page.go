package api

import "time"

// DialogueTranscriptParams asks for the transcript of a dialogue: all of it or, with one of the
// other parameters, one page. Without before, after and around a page is the end of the transcript.
type DialogueTranscriptParams struct {
	DialogueID string `json:"dialogue_id"`      // id or name
	Limit      int    `json:"limit,omitempty"`  // maximum number of items, without items below tool calls; at most 1000. 0: 100
	Before     string `json:"before,omitempty"` // the page ends before the item with this id
	After      string `json:"after,omitempty"`  // the page begins after the item with this id
	Around     string `json:"around,omitempty"` // the page has the item with this id in its middle
	// Scope is a tool call: the page has items of its sub-transcript. Empty: items of the dialogue.
	Scope string `json:"scope,omitempty"`
	// Depth is how many levels of sub-transcripts the page has. Where there are more, items_count
	// stands for the items. Absent: all levels.
	Depth *int `json:"depth,omitempty"`
	// CutBytes is the maximum number of bytes of a text, an input or an output. The rest is omitted, and cut
	// is its whole length; dialogue.item returns all of it. 0: nothing is cut.
	CutBytes int `json:"cut_bytes,omitempty"`
}

// Paged reports whether the parameters ask for a page, not for the whole transcript.
func (p DialogueTranscriptParams) Paged() bool {
	return p.Limit > 0 || p.Before != "" || p.After != "" || p.Around != "" || p.Scope != ""
}

// Check reports the first invalid parameter.
func (p DialogueTranscriptParams) Check() error {
	given := 0
	for _, id := range []string{p.Before, p.After, p.Around} {
		if id != "" {
			given++
		}
	}
	switch {
	case p.DialogueID == "":
		return InvalidParam("dialogue_id", "is required")
	case p.Limit < 0 || p.Limit > 1000:
		return InvalidParam("limit", "must be 1 to 1000")
	case given > 1:
		return InvalidParam("before", "before, after and around exclude each other")
	case p.Depth != nil && *p.Depth < 0:
		return InvalidParam("depth", "must not be negative")
	case p.CutBytes < 0:
		return InvalidParam("cut_bytes", "must not be negative")
	}
	return nil
}

// DialogueItemParams asks for one item of a transcript, or for a piece of one of its fields.
type DialogueItemParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	ItemID     string `json:"item_id"`     // as in the transcript
	// Field is the field to read, such as parts.0.text, parts.1.data_base64, tool.input,
	// tool.output.0.text or tool.structured. Empty: the whole item, without items below it.
	Field  string `json:"field,omitempty"`
	Offset int64  `json:"offset,omitempty"` // first byte of the field to read
	// Limit is the maximum number of bytes of the field. Absent: 1 MiB; at most 4 MiB.
	Limit *int64 `json:"limit,omitempty"`
}

// Check reports the first invalid parameter.
func (p DialogueItemParams) Check() error {
	switch {
	case p.DialogueID == "":
		return InvalidParam("dialogue_id", "is required")
	case p.ItemID == "":
		return InvalidParam("item_id", "is required")
	case p.Offset < 0:
		return InvalidParam("offset", "must not be negative")
	case p.Field == "" && (p.Offset > 0 || p.Limit != nil):
		return InvalidParam("field", "is required with offset or limit")
	case p.Limit != nil && (*p.Limit < 4 || *p.Limit > 4<<20):
		return InvalidParam("limit", "must be 4 to 4194304")
	}
	return nil
}

// DialogueItemResult is an item, or a piece of one of its fields.
type DialogueItemResult struct {
	DialogueID string `json:"dialogue_id"` // the id, even if the caller used the name
	Seq        int64  `json:"seq"`         // number of the last event that the answer includes
	Scope      string `json:"scope"`       // the tool call whose sub-transcript has the item; empty: none
	// Item is the whole item, without items below it. Absent if the call names a field.
	Item *DialogueItem `json:"item,omitempty"`
	// Data is the piece of the field. It never ends inside a character.
	Data     string `json:"data,omitempty"`
	Offset   int64  `json:"offset"`   // position of the first byte of data
	Total    int64  `json:"total"`    // length of the field in bytes; 0 without field
	Complete bool   `json:"complete"` // true if data reaches the end of the field
}

// DialogueSearchParams searches the transcript of a dialogue for a text.
type DialogueSearchParams struct {
	DialogueID string `json:"dialogue_id"`      // id or name
	Text       string `json:"text"`             // text to find; upper and lower case are the same
	Limit      int    `json:"limit,omitempty"`  // maximum number of matches; at most 1000. 0: 100
	Before     string `json:"before,omitempty"` // only items that appeared before the item with this id
}

// Check reports the first invalid parameter.
func (p DialogueSearchParams) Check() error {
	switch {
	case p.DialogueID == "":
		return InvalidParam("dialogue_id", "is required")
	case p.Text == "":
		return InvalidParam("text", "is required")
	case p.Limit < 0 || p.Limit > 1000:
		return InvalidParam("limit", "must be 1 to 1000")
	}
	return nil
}

// DialogueSearchResult lists the items that have the text, the newest first.
type DialogueSearchResult struct {
	DialogueID string          `json:"dialogue_id"` // the id, even if the caller used the name
	Seq        int64           `json:"seq"`         // number of the last event that was searched
	Matches    []DialogueMatch `json:"matches"`     // at most limit
	More       bool            `json:"more"`        // true if older items have the text too; before continues there
}

// DialogueMatch is an item that has the text.
type DialogueMatch struct {
	ItemID  string `json:"item_id"`           // for dialogue.item, and around of dialogue.transcript
	Scope   string `json:"scope"`             // the tool call whose sub-transcript has the item; empty: none
	TurnID  string `json:"turn_id,omitempty"` // the turn that the item belongs to
	Kind    string `json:"kind"`              // kind of the item
	Snippet string `json:"snippet"`           // the text around the first match, on one line
}

// DialogueLinesParams asks for lines that the agent's program wrote or was sent.
type DialogueLinesParams struct {
	DialogueID string `json:"dialogue_id"`     // id or name
	Epoch      int    `json:"epoch,omitempty"` // number of the agent's process, from 1; 0 for the last one
	// Stream is stdout, the program's output; stdin, its input; or both, which is the default.
	// Offsets are those of stdout, unless stream is stdin.
	Stream string `json:"stream,omitempty"`
	// FromOffset is where the first line begins, or later.
	FromOffset int64 `json:"from_offset,omitempty"`
	// BeforeOffset asks for the last lines that begin before this offset; -1: before the end.
	BeforeOffset *int64 `json:"before_offset,omitempty"`
	// Limit is the maximum number of lines; with both streams, of lines of stdout. At most 1000; 0: 100.
	Limit int `json:"limit,omitempty"`
	// CutBytes is the maximum number of bytes of a line's text. 0: 4096; at most 1 MiB.
	CutBytes int `json:"cut_bytes,omitempty"`
}

// Check reports the first invalid parameter.
func (p DialogueLinesParams) Check() error {
	switch {
	case p.DialogueID == "":
		return InvalidParam("dialogue_id", "is required")
	case p.Stream != "" && p.Stream != EventStdout && p.Stream != "stdin" && p.Stream != "both":
		return InvalidParam("stream", "must be stdout, stdin or both")
	case p.FromOffset < 0 || p.Epoch < 0:
		return InvalidParam("from_offset", "from_offset and epoch must not be negative")
	case p.BeforeOffset != nil && (*p.BeforeOffset < -1 || p.FromOffset > 0):
		return InvalidParam("before_offset", "must be an offset or -1, and not be given together with from_offset")
	case p.Limit < 0 || p.Limit > 1000:
		return InvalidParam("limit", "must be 1 to 1000")
	case p.CutBytes < 0 || p.CutBytes > 1<<20:
		return InvalidParam("cut_bytes", "must be 1 to 1048576")
	}
	return nil
}

// DialogueLinesResult is a page of lines, in the order in which they were written and sent.
type DialogueLinesResult struct {
	DialogueID string         `json:"dialogue_id"` // the id, even if the caller used the name
	Epoch      int            `json:"epoch"`       // number of the agent's process
	Lines      []DialogueLine `json:"lines"`       // complete lines, and the unfinished last one
	NextOffset int64          `json:"next_offset"` // from_offset of the page after this one
	Total      int64          `json:"total"`       // bytes of stdout so far; of stdin, if stream is stdin
	TotalStdin int64          `json:"total_stdin"` // bytes of stdin so far
	Complete   bool           `json:"complete"`    // true if the page reaches the end, and nothing follows later
}

// DialogueLine is one line of the protocol between TRL and the agent's program.
type DialogueLine struct {
	Stream string `json:"stream"` // stdout or stdin
	Offset int64  `json:"offset"` // position of the line in its stream
	Bytes  int64  `json:"bytes"`  // length with its line end
	// At is when TRL received or sent the line. Absent: an earlier version wrote the record.
	At   *time.Time `json:"at,omitempty"`
	Type string     `json:"type,omitempty"` // the type or the method that the line names in its first 64 KiB
	Text string     `json:"text"`           // the line without its line end, or its beginning
	// TextBase64 has the exact bytes, if text is not UTF-8.
	TextBase64 string `json:"text_base64,omitempty"`
	Cut        bool   `json:"cut,omitempty"` // true if text is only the beginning; dialogue.raw returns the rest
	// Partial says that the line has no end yet.
	Partial  bool               `json:"partial,omitempty"`
	Events   []DialogueLineNews `json:"events"`             // events that the line caused
	Unparsed string             `json:"unparsed,omitempty"` // why TRL does not understand the line
}

// DialogueLineNews is an event that a line caused.
type DialogueLineNews struct {
	Seq    int64             `json:"seq"`               // its number, for dialogue.events
	Type   DialogueEventType `json:"type"`              // its type
	ItemID string            `json:"item_id,omitempty"` // the item that it is about, if any
}
