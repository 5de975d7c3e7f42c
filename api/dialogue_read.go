package api

// DialogueRequestsParams selects requests of all dialogues.
type DialogueRequestsParams struct {
	State string   `json:"state,omitempty"` // open, which is the default
	Tags  []string `json:"tags,omitempty"`  // only requests of dialogues that have all of these tags
}

// Check reports the first invalid parameter.
func (p DialogueRequestsParams) Check() error {
	if p.State != "" && p.State != "open" {
		return InvalidParam("state", "%.40q is not open; dialogue.transcript has the closed requests of a dialogue", p.State)
	}
	return nil
}

// DialogueRequestsResult lists the requests, the one that has waited longest first.
type DialogueRequestsResult struct {
	Requests []DialogueWaiting `json:"requests"` // over all dialogues
	// Recovering has the ids of the dialogues whose requests are missing, because the daemon was
	// restarted and still reads their records. The call waits a second for them; call again.
	Recovering []string `json:"recovering,omitempty"`
}

// DialogueWaiting is a request and the dialogue whose agent waits for the answer.
type DialogueWaiting struct {
	DialogueID string          `json:"dialogue_id"` // for dialogue.respond
	Name       string          `json:"name"`        // name of the dialogue; empty if it has none
	Agent      string          `json:"agent"`       // the agent's protocol
	Request    DialogueRequest `json:"request"`     // what the agent asks
}

// DialogueEventsParams asks for the events of a dialogue.
type DialogueEventsParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	// AfterSeq is the number of the last event that the reader has; 0 for all events.
	AfterSeq int64 `json:"after_seq,omitempty"`
	// NoFollow ends the stream after the existing events, instead of waiting for more.
	NoFollow bool `json:"no_follow,omitempty"`
	// NoDeltas omits the events of type delta.
	NoDeltas bool `json:"no_deltas,omitempty"`
	// Types selects the events of these types, such as item and request_opened. Absent: all.
	Types []DialogueEventType `json:"types,omitempty"`
	// Passive says that no person reads the events now. Such a stream does not count as a follower,
	// so linger_s and deny_after_s go on counting.
	Passive bool `json:"passive,omitempty"`
}

// Check reports the first invalid parameter.
func (p DialogueEventsParams) Check() error {
	if p.DialogueID == "" {
		return InvalidParam("dialogue_id", "is required")
	}
	if p.AfterSeq < 0 {
		return InvalidParam("after_seq", "must not be negative")
	}
	if len(p.Types) > len(DialogueEventTypes) {
		return InvalidParam("types", "at most %d", len(DialogueEventTypes))
	}
	for _, t := range p.Types {
		if !contains(DialogueEventTypes, t) {
			return InvalidParam("types", "there is no event %.40q of a dialogue", t)
		}
	}
	return nil
}

// Selects reports whether the stream has the events of a type.
func (p DialogueEventsParams) Selects(t DialogueEventType) bool {
	return (len(p.Types) == 0 || contains(p.Types, t)) && !(p.NoDeltas && t == DialogueEventDelta)
}

// DialogueRawParams reads the raw output or input of the agent's program.
type DialogueRawParams struct {
	DialogueID string `json:"dialogue_id"`      // id or name
	Epoch      int    `json:"epoch,omitempty"`  // number of the agent's process, from 1; 0 for the last one
	Stream     string `json:"stream,omitempty"` // stdout, the program's output, or stdin, its input; stdout when empty
	Offset     int64  `json:"offset,omitempty"` // first byte to read
	// Limit is the maximum number of bytes to return. Absent: 1 MiB; at most 4 MiB.
	Limit *int64 `json:"limit,omitempty"`
}

// Check reports the first invalid parameter.
func (p DialogueRawParams) Check() error {
	switch {
	case p.DialogueID == "":
		return InvalidParam("dialogue_id", "is required")
	case p.Stream != "" && p.Stream != EventStdout && p.Stream != "stdin":
		return InvalidParam("stream", "must be stdout or stdin")
	case p.Offset < 0 || p.Epoch < 0:
		return InvalidParam("offset", "offset and epoch must not be negative")
	case p.Limit != nil && (*p.Limit < 1 || *p.Limit > 4<<20):
		return InvalidParam("limit", "must be 1 to 4194304")
	}
	return nil
}

// DialogueRawResult is a piece of the raw stream.
type DialogueRawResult struct {
	DialogueID string `json:"dialogue_id"`           // the id, even if the caller used the name
	Epoch      int    `json:"epoch"`                 // number of the agent's process
	Offset     int64  `json:"offset"`                // position of the first byte
	Data       string `json:"data"`                  // the bytes as text
	DataBase64 string `json:"data_base64,omitempty"` // the exact bytes, if they are not UTF-8
	Total      int64  `json:"total"`                 // bytes in the stream so far
	Complete   bool   `json:"complete"`              // true if nothing follows, now or later
}
