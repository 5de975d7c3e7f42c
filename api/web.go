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

// WebListParams has no fields.
type WebListParams struct{}

// WebListResult lists the logins of browsers, the last used first.
type WebListResult struct {
	Logins []WebLogin `json:"logins"` // the valid logins
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
}

// WebRevokeParams ends logins. The connections of their pages are closed at once.
type WebRevokeParams struct {
	LoginID string `json:"login_id,omitempty"` // the login to end
	All     bool   `json:"all,omitempty"`      // ends every login, and every code that is not used yet
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
	Revoked []string `json:"revoked"` // ids of the logins
}
