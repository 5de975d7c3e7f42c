// Command trl-runner owns one session: its shell, its output and its processes. The daemon starts
// it; it is not meant to be started by hand.
package main

import (
	"os"

	"github.com/trl-dev/trl/internal/runner"
)

func main() { os.Exit(runner.Main()) }
