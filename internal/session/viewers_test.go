package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestViewers is a table of steps: viewers attach, leave and report their size. After each step it
// checks the owner of the size and the size that the terminal gets, if any.
func TestViewers(t *testing.T) {
	for name, story := range map[string]string{
		"the first measured writer owns it until it leaves": `
			a attaches          -> - -
			b attaches 10x5     -> b 10x5
			c attaches 20x6     -> b -
			c measures 21x6     -> b -
			b measures 11x5     -> b 11x5
			c leaves            -> b -
			b leaves            -> - -`,
		"then the one that is there for longest, with its last size": `
			a attaches 10x5     -> a 10x5
			b attaches          -> a -
			c attaches 30x7     -> a -
			d attaches 40x8     -> a -
			c measures 31x7     -> a -
			a leaves            -> c 31x7
			b measures 20x6     -> c -
			c leaves            -> b 20x6
			b leaves            -> d 40x8`,
		"who only looks does not count": `
			a looks 10x5        -> - -
			a measures 11x5     -> - -
			b attaches 20x6     -> b 20x6
			b leaves            -> - -`,
		"who measures itself late owns it if nobody does": `
			a attaches          -> - -
			b attaches          -> - -
			b measures 20x6     -> b 20x6
			a measures 10x5     -> b -`,
		"it can be taken": `
			a attaches 10x5     -> a 10x5
			b takes 20x6        -> b 20x6
			a measures 12x5     -> b -
			a forces 13x5       -> a 13x5
			a leaves            -> b 20x6`,
		"a size that is nobody's": `
			resize 99x9         -> - 99x9
			a attaches 10x5     -> a 10x5
			resize 99x9         -> a refused
			force 99x9          -> - 99x9
			a measures 11x5     -> - -
			resize 98x9         -> - 98x9
			b attaches 20x6     -> b 20x6
			b leaves            -> a 11x5`,
	} {
		t.Run(name, func(t *testing.T) {
			var vs viewers
			byName := map[string]*Viewer{}
			for _, line := range strings.Split(strings.TrimSpace(story), "\n") {
				step, want, _ := strings.Cut(strings.TrimSpace(line), "->")
				if got := play(&vs, byName, strings.Fields(step)); got != strings.TrimSpace(want) {
					t.Errorf("%s: got %q, want %q", strings.TrimSpace(step), got, strings.TrimSpace(want))
				}
			}
		})
	}
}

// play does one step of a story and tells the owner and the size.
func play(vs *viewers, byName map[string]*Viewer, words []string) string {
	size := func(text string) *api.TerminalSize {
		var s api.TerminalSize
		if _, err := fmt.Sscanf(text, "%dx%d", &s.Cols, &s.Rows); err != nil {
			return nil
		}
		return &s
	}
	last := size(words[len(words)-1])
	resize, refused := false, false
	switch v := byName[words[0]]; {
	case words[0] == "resize" || words[0] == "force":
		resize = vs.set(*last, words[0] == "force")
		refused = !resize
	case words[1] == "leaves":
		resize = vs.remove(v)
	case words[1] == "measures" || words[1] == "forces":
		resize = vs.measured(v, *last, words[1] == "forces")
	default:
		v = &Viewer{id: words[0], readOnly: words[1] == "looks", size: last}
		byName[v.id] = v
		resize = vs.add(v, words[1] == "takes")
	}
	owner, what := vs.ownerID(), "-"
	if owner == "" {
		owner = "-"
	}
	switch {
	case refused:
		what = "refused"
	case resize:
		what = fmt.Sprintf("%dx%d", vs.want.Cols, vs.want.Rows)
	}
	return owner + " " + what
}

// TestViewersAtRandom checks the invariants after random steps.
func TestViewersAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var vs viewers
		for n := range 200 {
			size := api.TerminalSize{Cols: 2 + rnd.IntN(9), Rows: 1 + rnd.IntN(9)}
			before, wanted := vs.owner, vs.want
			var one *Viewer
			if len(vs.list) > 0 {
				one = vs.list[rnd.IntN(len(vs.list))]
			}
			resize, forced, left := false, rnd.IntN(4) == 0, false
			switch op := rnd.IntN(4); {
			case op == 0 || one == nil:
				one = &Viewer{id: fmt.Sprint(n), readOnly: rnd.IntN(3) == 0}
				if rnd.IntN(3) > 0 {
					one.size = &size
				}
				forced = forced && one.counts()
				resize = vs.add(one, forced)
			case op == 1:
				resize, left = vs.remove(one), true
			case op == 2:
				resize = vs.measured(one, size, forced)
			default:
				resize, one = vs.set(size, forced), nil
			}
			switch {
			case vs.owner != nil && (!vs.owner.counts() || !slices.Contains(vs.list, vs.owner)):
				t.Fatalf("seed %d, step %d: the owner is none that counts", seed, n)
			case vs.owner != nil && *vs.owner.size != vs.want:
				t.Fatalf("seed %d, step %d: the size that is wanted is not the owner's", seed, n)
			case !resize && vs.want != wanted:
				t.Fatalf("seed %d, step %d: another size is wanted and nobody hears of it", seed, n)
			case before != nil && vs.owner != before && !forced && !(left && one == before):
				t.Fatalf("seed %d, step %d: the owner lost the size and had neither left nor been forced", seed, n)
			}
		}
	}
}
