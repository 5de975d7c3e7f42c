package link_test

import (
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// TestTable checks what must hold for every row.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, row := range link.Calls() {
		if names[row.Name] {
			t.Errorf("%s: is there twice", row.Name)
		}
		names[row.Name] = true
		if row.Since < link.MinProtocol || row.Since > link.Protocol {
			t.Errorf("%s: since protocol %d, which is not one of %d to %d", row.Name, row.Since, link.MinProtocol, link.Protocol)
		}
	}
	if !names["hello"] || !names["exec.run"] {
		t.Errorf("the table has only %v", names)
	}
}

// TestRepeatable tries the rules that depend on the parameters or on the protocol.
func TestRepeatable(t *testing.T) {
	for _, c := range []struct {
		row      *link.Row
		params   any
		protocol int
		want     bool
	}{
		{&link.ExecRead.Row, link.ReadParams{}, 2, true},
		{&link.Create.Row, link.CreateParams{}, 3, false},
		{&link.Destroy.Row, link.DestroyParams{}, 3, false},
		{&link.ExecRun.Row, link.ExecParams{}, 2, false},
		{&link.ExecRun.Row, link.ExecParams{}, 3, true},
		{&link.ExecStart.Row, link.ExecParams{}, 2, false},
		{&link.ExecStart.Row, link.ExecParams{}, 3, true},
		{&link.ExecCancel.Row, api.ExecCancelParams{SessionID: "s-1"}, 3, false},
		{&link.ExecCancel.Row, api.ExecCancelParams{ExecID: "x-1-1"}, 3, true},
		{&link.ExecInput.Row, link.InputParams{}, 3, false},
		{&link.ExecInput.Row, link.InputParams{WriteID: "w"}, 3, true},
		{&link.Input.Row, link.SessionInputParams{}, 3, false},
		{&link.Input.Row, link.SessionInputParams{WriteID: "w"}, 3, true},
	} {
		if got := c.row.Repeatable(c.params, c.protocol); got != c.want {
			t.Errorf("%s %+v, protocol %d: %v, want %v", c.row.Name, c.params, c.protocol, got, c.want)
		}
	}
}
