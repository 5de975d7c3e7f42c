// Command trl-kube speaks with Kubernetes for the daemon, which starts it on demand. It is not
// meant to be started by hand.
package main

import (
	"os"

	"github.com/trl-dev/trl/internal/kube"
)

func main() { os.Exit(kube.Main()) }
