package client

import (
	"context"
	"crypto/rand"

	"github.com/trl-dev/trl/api"
)

// once gives a request for a command an id that makes it run once, however often it is sent.
// Where there is no second connection, it is sent once anyway.
func (c *Client) once(id *string) {
	if *id == "" && c.ReconnectFor > 0 {
		*id = rand.Text()
	}
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
