package cases

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/trl-dev/trl/api"
)

// processesOf returns what carries the marker of a session in its environment.
// The marker is a fact of the kernel, not what the daemon believes.
func processesOf(sessionID string) []string {
	marker := []byte(api.SessionMarker + "=" + sessionID + "\x00")
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []string
	for _, dir := range dirs {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil || !bytes.Contains(append([]byte{0}, env...), append([]byte{0}, marker...)) {
			continue
		}
		args, _ := os.ReadFile(dir + "/cmdline")
		found = append(found, filepath.Base(dir)+" "+strings.ReplaceAll(string(args), "\x00", " "))
	}
	return found
}
