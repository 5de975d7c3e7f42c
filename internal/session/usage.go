package session

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Usage measures what the session uses now.
func (s *Session) Usage(ctx context.Context) (api.SessionUsage, error) {
	var u api.SessionUsage
	_, err := s.callRunner(ctx, 0, time.Time{}, link.Usage.With(&struct{}{}, nil, &u))
	return u, err
}
