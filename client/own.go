package client

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/trl-dev/trl/api"
)

// once gives a request for a command an id that makes the daemon run the command once, however
// often the request arrives. It reports whether it did: a Client that does not reconnect sends
// the request only once, and an older daemon does not know run_id.
func (c *Client) once(id *string) bool {
	if *id != "" || c.ReconnectFor <= 0 || c.noRunID.Load() {
		return false
	}
	*id = rand.Text()
	return true
}

// isOlder reports whether an older daemon rejected a request because it does not know run_id.
// once then gives no more ids.
func (c *Client) isOlder(err error) bool {
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeInvalidParams || e.Details["field"] != "run_id" {
		return false
	}
	c.noRunID.Store(true)
	return true
}

// makeOwner calls a method that makes this Client the owner of an ephemeral session, and records the
// session, so that lostConnection can reclaim it. A daemon that ends answers and then disconnects, so
// the connection may be lost before the session is recorded: then makeOwner reclaims it.
func (c *Client) makeOwner(method func() (api.SessionInfo, error)) (api.SessionInfo, error) {
	c.mu.Lock()
	before := c.losses
	c.mu.Unlock()
	info, err := method()
	if err != nil {
		return info, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owned == nil {
		c.owned = map[string]bool{}
	}
	c.owned[info.SessionID] = false
	if c.losses != before {
		c.reclaimAllLocked()
	}
	return info, nil
}

// lostConnection is called when the connection that calls share is lost. The daemon would end the
// Client's ephemeral sessions, so session.own claims them again at once, on a new connection.
func (c *Client) lostConnection() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses++
	c.reclaimAllLocked()
}

func (c *Client) reclaimAllLocked() {
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

// reclaim makes this Client the owner of its session again. It returns when the Client is closed.
func (c *Client) reclaim(id string) {
	_, err := c.call(context.Background(), "session.own", api.SessionOwnParams{SessionID: id})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil { // the session has ended, or the daemon does not come back
		delete(c.owned, id)
	} else {
		c.owned[id] = false
	}
}
