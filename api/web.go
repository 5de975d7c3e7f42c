package api

import "time"

// Limits of the code of web.open.
const (
	DefaultWebExpiryS = 120
	MaxWebExpiryS     = 600
)

// WebOpenParams asks for an address at which a browser shows the console.
type WebOpenParams struct {
	// Scope is what the page may do: full (default), or read for a page that changes nothing.
	Scope string `json:"scope,omitempty"`
	// ExpiresS is for how many seconds the address is valid. Absent: 120; at most 600.
	ExpiresS *float64 `json:"expires_s,omitempty"`
}

// Check reports the first invalid parameter.
func (p WebOpenParams) Check() error {
	switch {
	case p.Scope != "" && p.Scope != string(AccessFull) && p.Scope != string(AccessRead):
		return InvalidParam("scope", "must be full or read")
	case p.ExpiresS != nil && (*p.ExpiresS < 1 || *p.ExpiresS > MaxWebExpiryS):
		return InvalidParam("expires_s", "must be a number of seconds from 1 to %d", MaxWebExpiryS)
	}
	return nil
}

// WebOpenResult is the address of the console. It holds a code that is valid once, behind the #,
// so that no browser sends it to a server in a URL. To show a certain page after the login, append
// ?to= and its path, such as ?to=/s/SESSION.
type WebOpenResult struct {
	URL       string    `json:"url"`        // such as http://127.0.0.1:7330/#/login/CODE
	ExpiresAt time.Time `json:"expires_at"` // when the code is no longer valid
}

// Limits of web.share.
const (
	DefaultShareExpiryS = 3600
	MaxShareExpiryS     = 30 * 24 * 3600
	DefaultShareViewers = 5
	MaxShareViewers     = 64
)

// WebShareParams asks for an address at which browsers can watch one session or one dialogue, and do
// nothing else. Either session_id or dialogue_id is required.
type WebShareParams struct {
	SessionID  string `json:"session_id,omitempty"`  // id or name
	DialogueID string `json:"dialogue_id,omitempty"` // id or name
	// ExpiresS is for how many seconds the address and its logins are valid. Absent: 3600; at most 30 days.
	ExpiresS *float64 `json:"expires_s,omitempty"`
	// Viewers is how many browsers may be logged in at once. Absent: 5; at most 64.
	Viewers int `json:"viewers,omitempty"`
}

// Check reports the first invalid parameter.
func (p WebShareParams) Check() error {
	switch {
	case p.SessionID == "" && p.DialogueID == "":
		return InvalidParam("session_id", "is required, or dialogue_id")
	case p.SessionID != "" && p.DialogueID != "":
		return InvalidParam("dialogue_id", "cannot be given together with session_id")
	case p.ExpiresS != nil && !(*p.ExpiresS >= 1 && *p.ExpiresS <= MaxShareExpiryS):
		return InvalidParam("expires_s", "must be a number of seconds from 1 to %d", MaxShareExpiryS)
	case p.Viewers < 0 || p.Viewers > MaxShareViewers:
		return InvalidParam("viewers", "must be from 1 to %d", MaxShareViewers)
	}
	return nil
}

// WebShareResult is the address of a share. It holds a code behind the #, which is valid for every
// viewer until the share expires or is revoked.
type WebShareResult struct {
	WebShare
	URL string `json:"url"` // such as http://127.0.0.1:7330/#/login/CODE?to=/s/SESSION
}

// WebShare is the permission to watch one session or one dialogue. It outlives restarts of the daemon.
type WebShare struct {
	ShareID    string    `json:"share_id"`              // h-…
	SessionID  string    `json:"session_id,omitempty"`  // the session
	DialogueID string    `json:"dialogue_id,omitempty"` // the dialogue
	Viewers    int       `json:"viewers"`               // how many browsers may be logged in at once
	CreatedAt  time.Time `json:"created_at"`            // when it was made
	ExpiresAt  time.Time `json:"expires_at"`            // when it ends, with its logins
}

// WebListParams has no fields.
type WebListParams struct{}

// WebListResult lists the logins of browsers, the last used first.
type WebListResult struct {
	Logins []WebLogin `json:"logins"` // the valid logins
	Shares []WebShare `json:"shares"` // the valid shares, the oldest first
}

// WebLogin is the login of one browser. It outlives restarts of the daemon.
type WebLogin struct {
	LoginID    string    `json:"login_id"`     // w-…
	Scope      string    `json:"scope"`        // full or read
	Browser    string    `json:"browser"`      // the name that the browser sent
	Address    string    `json:"address"`      // from which the browser logged in
	CreatedAt  time.Time `json:"created_at"`   // when it logged in
	LastUsedAt time.Time `json:"last_used_at"` // to the minute
	ExpiresAt  time.Time `json:"expires_at"`   // when it must log in again
	// ShareID is the share that the browser watches; absent for a login of web.open.
	ShareID string `json:"share_id,omitempty"`
}

// WebRevokeParams ends logins and shares. The connections of their pages are closed at once.
type WebRevokeParams struct {
	LoginID string `json:"login_id,omitempty"` // the login to end; or a share, with all of its logins
	All     bool   `json:"all,omitempty"`      // ends every login and share, and every code that is not used yet
}

// Check reports the first invalid parameter.
func (p WebRevokeParams) Check() error {
	switch {
	case p.LoginID == "" && !p.All:
		return InvalidParam("login_id", "is required, or all")
	case p.LoginID != "" && p.All:
		return InvalidParam("all", "cannot be given together with login_id")
	}
	return nil
}

// WebRevokeResult reports what was ended.
type WebRevokeResult struct {
	Revoked []string `json:"revoked"` // ids of the logins and shares
}
