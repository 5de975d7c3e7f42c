package client

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/trl-dev/trl/api"
)

// once gives a request for a command an id that makes it run once, however often it is sent.
// Where there is no second connection, it is sent once anyway; and an older daemon knows no
// such ids. It reports whether it did.
func (c *Client) once(id *string) bool {
	if *id != "" || c.ReconnectFor <= 0 || c.noRunID.Load() {
		return false
	}
	*id = rand.Text()
	return true
}

// isOlder reports whether a request was refused because of the id of once, by a daemon that does
// not know run_id. No other is given one then. Such a daemon names the field in its message only.
func (c *Client) isOlder(err error) bool {
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeInvalidParams || !strings.Contains(e.Message, "run_id") {
		return false
	}
	c.noRunID.Store(true)
	return true
}

// owns notes an ephemeral session of this Client.
func (c *Client) owns(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owned == nil {
		c.owned = map[string]bool{}
	}
	c.owned[id] = false
}

// lostConnection is called when the connection that calls share is lost. Ephemeral sessions
// would end with it, so another is made at once, and they hear that their owner is back.
func (c *Client) lostConnection() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// ReconnectFor may still be set while there is no session.
	if c.closed || len(c.owned) == 0 || c.ReconnectFor <= 0 {
		return
	}
	for id, asking := range c.owned {
		if !asking {
			c.owned[id] = true
			go c.reclaim(id)
		}
	}
}

// reclaim makes this Client the owner of its session again. It ends with the Client.
func (c *Client) reclaim(id string) {
	_, err := c.call(context.Background(), "session.own", api.SessionOwnParams{SessionID: id})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil { // it has ended, or the daemon is gone for good
		delete(c.owned, id)
	} else {
		c.owned[id] = false
	}
}
