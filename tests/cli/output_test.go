package cli_test

import (
	"regexp"
	"strconv"
	"testing"
)

// TestLargeOutputIsWholeOrSaysSo: output is never less than what was written with
// nobody the wiser.
func TestLargeOutputIsWholeOrSaysSo(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	const size = 50_000_000
	o := s.run(t, "run", "yes | head -c "+strconv.Itoa(size))
	if len(o.stdout) == size && o.status == 0 && o.stderr == "" {
		return
	}
	m := regexp.MustCompile(`^trl: exec x-\S+: lost (\d+) bytes of stdout: .*\nhint: .*\n$`).FindStringSubmatch(o.stderr)
	if m == nil || o.status != 125 {
		t.Fatalf("%d bytes, status %d, %q", len(o.stdout), o.status, o.stderr)
	}
	if lost, _ := strconv.Atoi(m[1]); len(o.stdout)+lost != size {
		t.Errorf("%d bytes came, %d are said to be lost, %d were written", len(o.stdout), lost, size)
	}
}

func TestStreamsAreInOrder(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	// Each stream alone is in order; both together are in the order of arrival.
	o := s.run(t, "run", "i=0; while [ $i -lt 2000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done")
	for name, got := range map[string]string{"out": o.stdout, "err": o.stderr} {
		want := ""
		for i := range 2000 {
			want += name + " " + strconv.Itoa(i) + "\n"
		}
		if got != want {
			t.Errorf("std%s: %d bytes, want %d", name, len(got), len(want))
		}
	}
}
