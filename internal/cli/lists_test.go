package cli

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestPages: every page is asked for once, with the next of the page before, and an error ends it.
func TestPages(t *testing.T) {
	var asked []string
	broken := errors.New("broken")
	list := func(last int, end error) func(p api.Page) (string, error) {
		asked = nil
		return func(p api.Page) (string, error) {
			asked = append(asked, p.After)
			if p.Limit == nil || *p.Limit != listPage {
				t.Errorf("limit %v", p.Limit)
			}
			if len(asked) == last {
				return "", end
			}
			return strconv.Itoa(len(asked)), nil
		}
	}
	if err := pages(list(3, nil)); err != nil || !slices.Equal(asked, []string{"", "1", "2"}) {
		t.Errorf("%q, %v", asked, err)
	}
	if err := pages(list(2, broken)); !errors.Is(err, broken) || !slices.Equal(asked, []string{"", "1"}) {
		t.Errorf("%q, %v", asked, err)
	}
}
