package login

import (
	"net/netip"
	"slices"
	"time"
)

const (
	// wrongPerMinute is how many wrong codes or tokens one address may send in a minute.
	wrongPerMinute = 10
	// maxWrong bounds how many addresses are remembered.
	maxWrong = 1024
)

// wrong has the times of the last wrong codes and tokens, by the address that sent them.
type wrong map[string][]time.Time

// MayTry reports whether an address has not sent too much that is wrong. Wrong notes one more.
func (s *Store) MayTry(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrong.mayTry(address, s.cfg.Now())
}

// Wrong notes that an address has sent a wrong token.
func (s *Store) Wrong(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong.note(address, s.cfg.Now())
}

func (w wrong) mayTry(address string, now time.Time) bool {
	n := 0
	for _, at := range w[neighbourhood(address)] {
		if now.Sub(at) < time.Minute {
			n++
		}
	}
	return n < wrongPerMinute
}

// note forgets the addresses whose last attempt is the oldest when there are too many: codes are too
// long to be guessed, so a full table locks no address out.
func (w wrong) note(address string, now time.Time) {
	key := neighbourhood(address)
	if _, known := w[key]; !known && len(w) >= maxWrong {
		oldest := ""
		for k, times := range w {
			if oldest == "" || times[len(times)-1].Before(w[oldest][len(w[oldest])-1]) {
				oldest = k
			}
		}
		delete(w, oldest)
	}
	times := append(w[key], now)
	w[key] = slices.Clone(times[max(0, len(times)-wrongPerMinute):])
}

// neighbourhood is what one person has: an IPv4 address, or a /64 of IPv6.
func neighbourhood(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || !a.Is6() {
		return address
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
}
