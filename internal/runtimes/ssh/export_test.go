package ssh

import (
	"testing"
	"time"
)

// SetPatience changes how long a connection may take to open a session.
func SetPatience(t *testing.T, d time.Duration) {
	before := openPatience
	openPatience = d
	t.Cleanup(func() { openPatience = before })
}

// SetIdleTime changes how long a connection lives without a session.
func SetIdleTime(t *testing.T, d time.Duration) {
	before := idleTime
	idleTime = d
	t.Cleanup(func() { idleTime = before })
}
