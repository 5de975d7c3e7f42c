package cli_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are processors: most of their time
// they wait, and a runner with the race detector sleeps for a second before it exits.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("8")
	}
	os.Exit(m.Run())
}
