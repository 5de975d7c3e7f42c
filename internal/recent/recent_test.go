package recent_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/trl-dev/trl/internal/recent"
)

func ids(m *recent.Map[int]) (all []string) {
	for id := range m.All() {
		all = append(all, id)
	}
	return all
}

func TestMap(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(m *recent.Map[int])
		want []string
	}{
		{"empty", func(*recent.Map[int]) {}, nil},
		{"not yet full", func(m *recent.Map[int]) { m.Put("a", 1); m.Put("b", 2) }, []string{"a", "b"}},
		{"the oldest goes", func(m *recent.Map[int]) { m.Put("a", 1); m.Put("b", 2); m.Put("c", 3); m.Put("d", 4) }, []string{"b", "c", "d"}},
		{"a known id keeps its age", func(m *recent.Map[int]) { m.Put("a", 1); m.Put("b", 2); m.Put("c", 3); m.Put("a", 4); m.Put("d", 5) }, []string{"b", "c", "d"}},
		{"a deleted id is the newest when it comes back", func(m *recent.Map[int]) { m.Put("a", 1); m.Put("b", 2); m.Delete("a"); m.Put("a", 3) }, []string{"b", "a"}},
		{"a place that a deletion left unused is taken in turn", func(m *recent.Map[int]) {
			m.Put("a", 1)
			m.Put("b", 2)
			m.Put("c", 3)
			m.Delete("a")
			m.Put("d", 4)
		}, []string{"b", "c", "d"}},
		{"the empty id is an id", func(m *recent.Map[int]) { m.Put("", 1); m.Put("b", 2); m.Delete("b"); m.Put("c", 3); m.Put("d", 4) }, []string{"c", "d"}},
		{"deleting an unknown id", func(m *recent.Map[int]) { m.Delete("a"); m.Put("a", 1) }, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := recent.New[int](3)
			c.do(m)
			if got := ids(m); !slices.Equal(got, c.want) || m.Len() != len(c.want) {
				t.Errorf("%v, length %d; want %v", got, m.Len(), c.want)
			}
		})
	}
}

// A plain list, searched from end to end, holds the same.
func TestMapAsAList(t *testing.T) {
	const most = 7
	random := rand.New(rand.NewPCG(1, 2))
	m := recent.New[int](most)
	var order []string // every place, also those that a deletion left unused
	values := map[string]int{}
	for n := range 20_000 {
		id := strconv.Itoa(random.IntN(20))
		_, known := values[id]
		if random.IntN(4) == 0 {
			m.Delete(id)
			if known {
				delete(values, id)
				order[slices.Index(order, id)] = "unused"
			}
		} else {
			m.Put(id, n)
			if values[id] = n; !known {
				if order = append(order, id); len(order) > most {
					delete(values, order[0])
					order = order[1:]
				}
			}
		}
		want := slices.DeleteFunc(slices.Clone(order), func(id string) bool { return id == "unused" })
		if got := ids(m); !slices.Equal(got, want) || !maps.Equal(maps.Collect(m.All()), values) {
			t.Fatalf("step %d: %v, want %v", n, got, want)
		}
		if value, ok := m.Get(id); ok != m.Has(id) || ok != slices.Contains(want, id) || value != values[id] {
			t.Fatalf("step %d: %s is %d, %v", n, id, value, ok)
		}
	}
}
