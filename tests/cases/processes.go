package cases

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// commandLines returns the processes of the whole machine whose command line matches. A dead
// process that is not reaped has no command line.
func commandLines(regex string) []string {
	out, err := exec.Command("ps", "-axww", "-o", "pid=,args=").Output()
	if err != nil {
		return []string{fmt.Sprintf("ps: %s", err)}
	}
	re := regexp.MustCompile(regex)
	var found []string
	for line := range strings.Lines(string(out)) {
		if _, args, ok := strings.Cut(strings.TrimSpace(line), " "); ok && re.MatchString(args) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
