package testkit

import "testing"

// Long marks a test that takes seconds: `make quick` leaves it out.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long; make test and make check run it")
	}
}
