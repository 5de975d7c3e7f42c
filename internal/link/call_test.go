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
		call     link.Outgoing
		protocol int
		want     bool
	}{
		{link.ExecRead.With(&link.ReadParams{}, nil, nil), 2, true},
		{link.Create.With(&link.CreateParams{}, nil, nil), 3, false},
		{link.Destroy.With(&link.DestroyParams{}, nil, nil), 3, false},
		{link.ExecRun.With(&link.ExecParams{}, nil, nil), 2, false},
		{link.ExecRun.With(&link.ExecParams{}, nil, nil), 3, true},
		{link.ExecStart.With(&link.ExecParams{}, nil, nil), 2, false},
		{link.ExecStart.With(&link.ExecParams{}, nil, nil), 3, true},
		{link.ExecCancel.With(&api.ExecCancelParams{SessionID: "s-1"}, nil, nil), 3, false},
		{link.ExecCancel.With(&api.ExecCancelParams{ExecID: "x-1-1"}, nil, nil), 3, true},
		{link.ExecInput.With(&link.InputParams{}, nil, nil), 3, false},
		{link.ExecInput.With(&link.InputParams{WriteID: "w"}, nil, nil), 3, true},
		{link.Input.With(&link.SessionInputParams{}, nil, nil), 3, false},
		{link.Input.With(&link.SessionInputParams{WriteID: "w"}, nil, nil), 3, true},
	} {
		if got := c.call.Repeatable(c.protocol); got != c.want {
			t.Errorf("%s %+v, protocol %d: %v, want %v", c.call.Name, c.call.Params, c.protocol, got, c.want)
		}
	}
}
