// Package recent remembers the newest values by id, and forgets the oldest ones when there
// are too many. It answers questions such as "was this write already made?" with bounded
// memory, however long the sender lives.
package recent

import "iter"

// Map holds the values of the newest ids. The ids that it holds depend only on the calls
// made, in order, so that a replay of the same calls forgets the same ids. It is used by one
// goroutine at a time.
type Map[V any] struct {
	most int
	at   map[string]int // the place of each id in the ring
	ring []entry[V]     // grows up to most entries
	next int            // the oldest entry of a full ring
}

// entry is one place of the ring. A deleted value leaves its place unused until the ring
// comes round to it.
type entry[V any] struct {
	id    string
	value V
	used  bool
}

// New makes a Map that holds at most that many values, at least one. It takes memory as it
// fills.
func New[V any](most int) *Map[V] {
	return &Map[V]{most: max(most, 1), at: map[string]int{}}
}

// Get returns the value of an id, if the map still holds it.
func (m *Map[V]) Get(id string) (value V, ok bool) {
	i, ok := m.at[id]
	if ok {
		value = m.ring[i].value
	}
	return value, ok
}

// Has reports whether the map still holds an id.
func (m *Map[V]) Has(id string) bool {
	_, ok := m.at[id]
	return ok
}

// Put sets the value of an id. An id that the map holds keeps its age; a new id takes the
// place of the oldest one when the map is full.
func (m *Map[V]) Put(id string, value V) {
	if i, ok := m.at[id]; ok {
		m.ring[i].value = value
		return
	}
	e := entry[V]{id: id, value: value, used: true}
	if len(m.ring) < m.most {
		m.at[id] = len(m.ring)
		m.ring = append(m.ring, e)
		return
	}
	if oldest := m.ring[m.next]; oldest.used {
		delete(m.at, oldest.id)
	}
	m.at[id] = m.next
	m.ring[m.next] = e
	m.next = (m.next + 1) % m.most
}

// Delete forgets an id. If it is put again, it is the newest.
func (m *Map[V]) Delete(id string) {
	if i, ok := m.at[id]; ok {
		delete(m.at, id)
		m.ring[i] = entry[V]{}
	}
}

// All yields the ids and their values, oldest first. The caller must not change the map
// meanwhile.
func (m *Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for i := range m.ring {
			e := m.ring[(m.next+i)%len(m.ring)]
			if e.used && !yield(e.id, e.value) {
				return
			}
		}
	}
}

// Len returns how many values the map holds.
func (m *Map[V]) Len() int { return len(m.at) }
