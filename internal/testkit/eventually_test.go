package testkit_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/internal/testkit"
)

// verdict is a testing.TB that keeps the text of a failure instead of failing the test.
type verdict struct {
	testing.TB
	text string
}

func (v *verdict) Helper() {}

func (v *verdict) Fatalf(format string, args ...any) {
	v.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// judge runs f with a testing.TB of its own and returns the text of its failure.
func judge(f func(t testing.TB)) string {
	v := &verdict{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(v)
	}()
	<-done
	return v.text
}

func TestEventuallyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		text := judge(func(t testing.TB) {
			testkit.Eventually(t, "a minute has passed", func() bool { return time.Since(start) > time.Minute })
		})
		if text != "" {
			t.Error(text)
		}
	})
}

func TestEventuallyNamesWhatDidNotHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := judge(func(t testing.TB) { testkit.Eventually(t, "pigs fly", func() bool { return false }) })
		if !strings.HasSuffix(text, ": pigs fly") {
			t.Errorf("failed with %q", text)
		}
		n := 0
		text = judge(func(t testing.TB) {
			testkit.EventuallyNoProblem(t, func() string { n++; return fmt.Sprintf("problem %d", n) })
		})
		if !strings.HasSuffix(text, fmt.Sprintf(": problem %d", n)) {
			t.Errorf("failed with %q, the last problem was %d", text, n)
		}
	})
}

// TestEventuallySlowCheck: a check that takes longer than the whole patience still gets a second try.
func TestEventuallySlowCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		text := judge(func(t testing.TB) {
			testkit.Eventually(t, "the second try succeeds", func() bool {
				tries++
				time.Sleep(time.Hour)
				return tries == 2
			})
		})
		if text != "" {
			t.Error(text)
		}
	})
}
