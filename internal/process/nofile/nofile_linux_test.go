package nofile_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/process/nofile"
)

// The limit is the one that a child of package syscall gets, and not the raised one of this process.
func TestOriginal(t *testing.T) {
	out, err := exec.Command("sh", "-c", "ulimit -Sn; ulimit -Hn").Output()
	if err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) string {
		if n == 1<<64-1 {
			return "unlimited"
		}
		return strconv.FormatUint(n, 10)
	}
	if got, want := limit(nofile.Original[0])+" "+limit(nofile.Original[1]), strings.Join(strings.Fields(string(out)), " "); got != want {
		t.Errorf("the limit is %s, a child has %s", got, want)
	}
}
