// Command trl is the command line of TRL and its daemon. If no separate runner is embedded, it is
// also the runner.
package main

import (
	"os"

	"github.com/trl-dev/trl/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
