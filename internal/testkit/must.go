package testkit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// Must stops the test at an error: Must(client.SystemPing(ctx, params))(t) is the result of the
// call.
func Must[R any](r R, err error) func(testing.TB) R {
	return func(t testing.TB) R {
		t.Helper()
		if err != nil {
			t.Fatalf("%v%s", err, details(err))
		}
		return r
	}
}

// WantError checks the code of an error, and that its message or its details contain the text.
func WantError(t testing.TB, err error, code api.Code, text string) {
	t.Helper()
	if err == nil || api.AsError(err).Code != code || !strings.Contains(err.Error()+details(err), text) {
		t.Errorf("got  %v%s\nwant %s: %s", err, details(err), code, text)
	}
}

// details returns the details of an error for a message, "" if it has none.
func details(err error) string {
	if e := api.AsError(err); err != nil && len(e.Details) > 0 {
		return fmt.Sprintf(" %v", e.Details)
	}
	return ""
}
