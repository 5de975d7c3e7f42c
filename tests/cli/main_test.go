package cli_test

import (
	"flag"
	"os"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain lets more tests run at once than there are processors: most of their time
// they wait, and a runner with the race detector sleeps for a second before it exits.
func TestMain(m *testing.M) {
	if os.Getenv(leads) != "" {
		lead()
		return
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("8")
	}
	// Under nohup the tests' own SIGHUP is ignored, and programs inherit that. One that
	// is caught is theirs again.
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	os.Exit(m.Run())
}
