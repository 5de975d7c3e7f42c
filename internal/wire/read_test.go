package wire_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

// lines reads all lines and detaches each, as a server does.
func lines(t *testing.T, r *wire.Reader, budget *wire.Budget) []string {
	t.Helper()
	var out []string
	for {
		line, err := r.Next()
		var refused *wire.Refused
		switch {
		case errors.As(err, &refused):
			out = append(out, string(refused.Cause.Code)+" "+string(refused.ID))
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			return append(out, "error "+err.Error())
		default:
			own, taken := r.Detach(line)
			out = append(out, string(own))
			budget.Return(taken)
		}
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	tests := []struct {
		name, in string
		max      int
		budget   int64
		want     []string
	}{
		{name: "lines", in: "a\nb\r\n\n \t\r\nc\n", want: []string{"a", "b", "c"}},
		{name: "last line without its end", in: "a\nb", want: []string{"a", "b"}},
		{name: "nothing", in: "", want: nil},
		{name: "just long enough", in: strings.Repeat("x", 50) + "\nb\n", max: 50, want: []string{strings.Repeat("x", 50), "b"}},
		{name: "one too long", in: strings.Repeat("x", 51) + "\nb\n", max: 50, want: []string{"REQUEST_TOO_LARGE ", "b"}},
		{name: "last one too long", in: "b\n" + strings.Repeat("x", 51), max: 50, want: []string{"b", "REQUEST_TOO_LARGE "}},
		{name: "too long at the limit of a buffer", in: strings.Repeat("x", 8193) + "\nb\n", max: 8192, want: []string{"REQUEST_TOO_LARGE ", "b"}},
		{name: "as long as a buffer", in: strings.Repeat("x", 8192) + "\r\nb\n", max: 8193, want: []string{strings.Repeat("x", 8192), "b"}},
		{name: "much too long", in: `{"id":7,"p":"` + long + "\"}\nb\n" + long + "\nc\n", max: 9000, want: []string{"REQUEST_TOO_LARGE 7", "b", "REQUEST_TOO_LARGE ", "c"}},
		{name: "large", in: "a\n" + long + "\nb\n" + long + "\n" + long, want: []string{"a", long, "b", long, long}},
		{name: "no room", in: `{"id":"k","p":"` + long + "\"}\nb\n", budget: 100_000, want: []string{"RESOURCE_PRESSURE \"k\"", "b"}},
		{name: "room again", in: long + "\n" + long + "\n", budget: 300_000, want: []string{long, long}},
	}
	for _, tt := range tests {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
			"halves": iotest.HalfReader, "end with data": iotest.DataErrReader,
		} {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				if tt.max == 0 {
					tt.max = 1 << 20
				}
				if tt.budget == 0 {
					tt.budget = 10 << 20
				}
				budget := wire.NewBudget(tt.budget)
				r := wire.NewReader(wrap(strings.NewReader(tt.in)), tt.max, 0, budget)
				if got := lines(t, r, budget); !slices.Equal(got, tt.want) {
					t.Errorf("got %.100q\nwant %.100q", got, tt.want)
				}
				r.Close()
				if left := wire.BudgetLeft(budget); left != tt.budget {
					t.Errorf("%d of %d bytes are back in the budget", left, tt.budget)
				}
			})
		}
	}
}

func TestReaderKeepsTheError(t *testing.T) {
	broken := errors.New("broken")
	r := wire.NewReader(io.MultiReader(strings.NewReader("a\npart"), iotest.ErrReader(broken)), 100, 0, nil)
	got := lines(t, r, wire.NewBudget(0))
	if want := []string{"a", "error broken"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReaderSharesUntilNext: without Detach, no line is copied, and the buffer shrinks again after
// a large line.
func TestReaderSharesUntilNext(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	r := wire.NewReader(strings.NewReader("a\n"+long+"\nb\n"), 2<<20, 0, nil)
	for _, want := range []string{"a", long, "b"} {
		line, err := r.Next()
		if err != nil || string(line) != want {
			t.Fatalf("%.10q, %v; want %.10q", line, err, want)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Fatal(err)
	}
	if n := wire.BufferSize(r); n > 64<<10 {
		t.Errorf("an idle reader keeps %d bytes", n)
	}
}

func TestRefusedNamesTheLimit(t *testing.T) {
	r := wire.NewReader(bytes.NewReader(bytes.Repeat([]byte("x"), 10_000)), 5000, 0, nil)
	_, err := r.Next()
	var refused *wire.Refused
	if !errors.As(err, &refused) || refused.Cause.Code != api.CodeRequestTooLarge || !strings.Contains(err.Error(), "max_request_bytes (5000)") {
		t.Errorf("%v", err)
	}
}
