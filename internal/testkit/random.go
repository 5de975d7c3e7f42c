package testkit

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Random returns random numbers for a test that disturbs something at random. Their seed is in the
// log of the test; $TRL_CHAOS_SEED repeats a run.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("TRL_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("TRL_CHAOS_SEED: %s", err)
		}
	}
	t.Logf("TRL_CHAOS_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
