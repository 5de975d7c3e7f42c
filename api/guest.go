package api

import (
	"encoding/base64"
	"strings"
	"time"
)

// A guest is the runner of a session that belongs to another daemon, its owner: a session there in a
// place of kind trl. This daemon starts the runner, passes its bytes on, and ends it. It shows the guest
// as a session, but only the owner runs commands in it.

// GuestOwner describes the owner of a guest.
type GuestOwner struct {
	// OwnerID identifies the daemon that owns the session. It stays the same after a restart.
	OwnerID string `json:"owner_id"`
	// Owner is the machine of that daemon, for people.
	Owner string `json:"owner,omitempty"`
	// OwnerLostS is the number of seconds without a connection of the owner after which the
	// guest ends; 0 = never.
	OwnerLostS float64 `json:"owner_lost_s"`
	// Connected reports whether the owner has a connection to the runner.
	Connected bool `json:"connected"`
}

// GuestStartParams starts a guest. A guest of this owner that already exists is returned.
type GuestStartParams struct {
	OwnerID   string      `json:"owner_id"`        // the daemon that owns the session
	Owner     string      `json:"owner,omitempty"` // the machine of that daemon, for people
	SessionID string      `json:"session_id"`      // id of the session, the same on both daemons
	Name      string      `json:"name,omitempty"`  // name of the session there, for people
	Kind      SessionKind `json:"kind,omitempty"`  // kind of the session
	Tags      []string    `json:"tags,omitempty"`  // tags of the session
	// Runtime is the word for the place of the session, as in session.create. Empty: the default.
	Runtime string `json:"runtime,omitempty"`
	// Beside is another guest of the owner, in whose container, pod or machine the new one will be.
	Beside string `json:"beside,omitempty"`
	// Limits are the limits of the session, for the engine of a container or pod that is made for it.
	Limits *Limits `json:"limits,omitempty"`
	// OwnerLostS is the number of seconds without a connection of the owner after which the
	// guest ends. It is at most the daemon's own owner_lost_s, which is also the default.
	OwnerLostS *float64 `json:"owner_lost_s,omitempty"`
	// DaemonID names the daemon that the request is for. Any other daemon answers CONFLICT.
	DaemonID string `json:"daemon_id,omitempty"`
}

// isSessionID reports whether a text has the form of a session's id. Ids of guests become paths.
func isSessionID(id string) bool {
	return len(id) == 12 && id[:2] == "s-" && strings.Trim(id[2:], "0123456789abcdef") == ""
}

// checkGuest checks what names a guest.
func checkGuest(ownerID, sessionID string) error {
	switch {
	case ownerID == "" || len(ownerID) > 128 || !plainText(ownerID):
		return InvalidParam("owner_id", "must be 1 to 128 bytes, without control characters")
	case !isSessionID(sessionID):
		return InvalidParam("session_id", "%.40q is not the id of a session", sessionID)
	}
	return nil
}

// Check reports the first invalid parameter.
func (p GuestStartParams) Check() error {
	switch {
	case len(p.Owner) > 256 || !plainText(p.Owner):
		return InvalidParam("owner", "must be at most 256 bytes, without control characters")
	case p.Beside != "" && p.Runtime != "":
		return InvalidParam("runtime", "cannot be given together with beside: the place already exists")
	case p.Beside != "" && p.Limits != nil:
		return InvalidParam("limits", "cannot be given together with beside: the place already exists")
	case p.OwnerLostS != nil && !(*p.OwnerLostS > 0):
		return InvalidParam("owner_lost_s", "must be a number of seconds above 0")
	}
	if err := (SessionCreateParams{Name: p.Name, Tags: p.Tags, Runtime: p.Runtime, Limits: p.Limits}).Check(); err != nil {
		return err
	}
	return checkGuest(p.OwnerID, p.SessionID)
}

// GuestInfo describes a guest.
type GuestInfo struct {
	GuestOwner
	SessionID string    `json:"session_id"` // id of the session
	DaemonID  string    `json:"daemon_id"`  // the daemon that has the guest
	Place     PlaceInfo `json:"place"`      // where the runner is, as seen by that daemon
	CreatedAt time.Time `json:"created_at"` // UTC
	// Limits are the limits of the session that the engine of its place enforces.
	Limits []EnforcedLimit `json:"limits,omitempty"`
}

// GuestConnectParams names the guest to whose runner the owner connects.
type GuestConnectParams struct {
	OwnerID   string `json:"owner_id"`   // the daemon that owns the session
	SessionID string `json:"session_id"` // id of the session
	// DaemonID names the daemon that the request is for. Any other daemon answers CONFLICT.
	DaemonID string `json:"daemon_id,omitempty"`
}

// Check reports the first invalid parameter.
func (p GuestConnectParams) Check() error { return checkGuest(p.OwnerID, p.SessionID) }

// GuestSendParams passes bytes on to a runner.
type GuestSendParams struct {
	// StreamID is the connection: the stream_id of guest.connect.
	StreamID string `json:"stream_id"`
	// Offset is the number of bytes sent before these. Requests that arrive out of order are put
	// in order by it.
	Offset     int64  `json:"offset"`
	DataBase64 string `json:"data_base64"` // the bytes
	// Bytes are the bytes, when they come beside the request.
	Bytes []byte `json:"-"`
}

// Check reports the first invalid parameter.
func (p GuestSendParams) Check() error {
	switch {
	case p.StreamID == "":
		return InvalidParam("stream_id", "is required")
	case p.Offset < 0:
		return InvalidParam("offset", "must not be negative")
	case len(p.Bytes) == 0 && p.DataBase64 == "":
		return InvalidParam("data_base64", "is required")
	case len(p.Bytes) > 0 && p.DataBase64 != "":
		return InvalidParam("data_base64", "cannot be given together with bytes beside the request")
	}
	if _, err := base64.StdEncoding.DecodeString(p.DataBase64); err != nil {
		return InvalidParam("data_base64", "is not base64")
	}
	return nil
}

// Content returns the bytes, from Bytes or from DataBase64.
func (p GuestSendParams) Content() []byte {
	if len(p.Bytes) > 0 {
		return p.Bytes
	}
	return Data("", p.DataBase64)
}

// attach takes the bytes that came beside the request.
func (p *GuestSendParams) attach(data []byte) { p.Bytes = data }

// GuestSendResult reports that the bytes were passed to the runner.
type GuestSendResult struct {
	NextOffset int64 `json:"next_offset"` // the offset of the next bytes
}

// GuestEndParams names the guest to end.
type GuestEndParams struct {
	OwnerID   string `json:"owner_id"`   // the daemon that owns the session
	SessionID string `json:"session_id"` // id of the session
	// DaemonID names the daemon that the request is for. Any other daemon answers CONFLICT.
	DaemonID string `json:"daemon_id,omitempty"`
}

// Check reports the first invalid parameter.
func (p GuestEndParams) Check() error { return checkGuest(p.OwnerID, p.SessionID) }

// GuestEndResult says how a guest has ended. Nothing of it is left.
type GuestEndResult struct {
	SessionID string `json:"session_id"` // id of the session
	Cause     string `json:"cause"`      // how the runner ended, for people
	// NoRoom reports that the runner ended because the system refused it a thread.
	NoRoom bool `json:"no_room,omitempty"`
	// Killed are the processes that outlived the runner.
	Killed []KilledProcess `json:"killed"`
}

// GuestListParams selects guests.
type GuestListParams struct {
	// OwnerID selects the guests of one daemon.
	OwnerID string `json:"owner_id,omitempty"`
}

// GuestListResult lists the guests, and describes the daemon that has them.
type GuestListResult struct {
	Guests   []GuestInfo `json:"guests"`    // oldest first
	DaemonID string      `json:"daemon_id"` // identifies this daemon; stays the same after a restart
	Version  string      `json:"version"`   // version of this daemon
	OS       string      `json:"os"`        // such as linux
	Arch     string      `json:"arch"`      // such as amd64
	// Enforced lists the features that guests have, such as "cgroup.kill".
	Enforced []string `json:"enforced"`
	// OwnerLostS is the longest time that a guest can live without a connection of its owner, in
	// seconds; 0 = no limit.
	OwnerLostS float64 `json:"owner_lost_s"`
}
