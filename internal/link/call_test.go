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

// TestRepeatable tries the rules, some of which depend on the parameters.
func TestRepeatable(t *testing.T) {
	for _, c := range []struct {
		call link.Outgoing
		want bool
	}{
		{link.ExecRead.With(&link.ReadParams{}, nil, nil), true},
		{link.Create.With(&link.CreateParams{}, nil, nil), false},
		{link.Destroy.With(&link.DestroyParams{}, nil, nil), false},
		{link.ExecRun.With(&link.ExecParams{}, nil, nil), true},
		{link.ExecStart.With(&link.ExecParams{}, nil, nil), true},
		{link.ExecCancel.With(&link.CancelParams{ExecCancelParams: api.ExecCancelParams{SessionID: "s-1"}}, nil, nil), false},
		{link.ExecCancel.With(&link.CancelParams{ExecCancelParams: api.ExecCancelParams{ExecID: "x-1-1"}}, nil, nil), true},
		{link.ExecInput.With(&link.InputParams{}, nil, nil), false},
		{link.ExecInput.With(&link.InputParams{WriteID: "w"}, nil, nil), true},
		{link.Input.With(&link.SessionInputParams{}, nil, nil), false},
		{link.Input.With(&link.SessionInputParams{WriteID: "w"}, nil, nil), true},
	} {
		if got := c.call.Repeatable(); got != c.want {
			t.Errorf("%s %+v: %v, want %v", c.call.Name, c.call.Params, got, c.want)
		}
	}
}
