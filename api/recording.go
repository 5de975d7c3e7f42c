package api

import "time"

// Limits of recording.list and recording.read.
const (
	DefaultRecordingsLimit = 100
	MaxRecordingsLimit     = 1000
	MaxRecordingBytes      = 4 << 20
)

// KeptRecording describes a recording of a terminal. A recording stays when its session is no longer
// known, until recording.delete or recordings_total_bytes removes it.
type KeptRecording struct {
	RecordingID string `json:"recording_id"`      // id of the recorded session
	Name        string `json:"name,omitempty"`    // name of the session, while it is known
	Command     string `json:"command,omitempty"` // the recorded command
	Cols        int    `json:"cols"`              // size at the beginning
	Rows        int    `json:"rows"`              // size at the beginning
	Bytes       int64  `json:"bytes"`             // size of the recording so far
	Live        bool   `json:"live"`              // true while its session lives
	// StartedAt is when the recording started, in whole seconds.
	StartedAt time.Time `json:"started_at"`
	ChangedAt time.Time `json:"changed_at"` // when something was last recorded
	Input     bool      `json:"input"`      // true if the input is recorded, too
}

// RecordingListParams asks for a page of the recordings.
type RecordingListParams struct {
	// Limit is the maximum number of recordings. Absent: 100; at most 1000.
	Limit int `json:"limit,omitempty"`
	// Before continues the list after this recording: next_before of the previous page.
	Before string `json:"before,omitempty"`
}

// Check reports the first invalid parameter.
func (p RecordingListParams) Check() error {
	switch {
	case p.Limit < 0 || p.Limit > MaxRecordingsLimit:
		return InvalidParam("limit", "must be from 1 to %d", MaxRecordingsLimit)
	case p.Before != "" && !isSessionID(p.Before):
		return InvalidParam("before", "%.40q is not the id of a recording", p.Before)
	}
	return nil
}

// RecordingListResult is a page of the recordings.
type RecordingListResult struct {
	Recordings []KeptRecording `json:"recordings"` // the newest first
	// NextBefore continues the list with older recordings, as before. Absent: there are no more.
	NextBefore string `json:"next_before,omitempty"`
	TotalBytes int64  `json:"total_bytes"` // size of all recordings, on all pages
}

// RecordingReadParams reads a piece of a recording.
type RecordingReadParams struct {
	RecordingID string `json:"recording_id"`     // as in recording.list
	Offset      int64  `json:"offset,omitempty"` // first byte to read
	// Limit is the maximum number of bytes to return. Absent: 1 MiB; at most 4 MiB.
	Limit *int64 `json:"limit,omitempty"`
}

// Check reports the first invalid parameter.
func (p RecordingReadParams) Check() error {
	if err := checkRecordingID(p.RecordingID); err != nil {
		return err
	}
	return SessionRecordingParams{SessionID: p.RecordingID, Offset: p.Offset, Limit: p.Limit}.Check()
}

// checkRecordingID checks the id of a recording, which becomes a path.
func checkRecordingID(id string) error {
	switch {
	case id == "":
		return InvalidParam("recording_id", "is required")
	case !isSessionID(id):
		return InvalidParam("recording_id", "%.40q is not the id of a recording", id)
	}
	return nil
}

// RecordingReadResult is a piece of an asciicast (version 3).
type RecordingReadResult struct {
	RecordingID string `json:"recording_id"` // as in recording.list
	Offset      int64  `json:"offset"`       // position of the first byte
	Data        string `json:"data"`         // never ends inside a character
	Total       int64  `json:"total"`        // bytes in the recording so far
	Complete    bool   `json:"complete"`     // true if nothing follows, now or later
}

// RecordingDeleteParams names the recording to delete.
type RecordingDeleteParams struct {
	RecordingID string `json:"recording_id"` // as in recording.list
}

// Check reports the first invalid parameter.
func (p RecordingDeleteParams) Check() error { return checkRecordingID(p.RecordingID) }

// RecordingDeleteResult says that a recording is deleted.
type RecordingDeleteResult struct {
	RecordingID string `json:"recording_id"` // the deleted recording
	Bytes       int64  `json:"bytes"`        // its size
}
