package transcript

import "iter"

// open holds open things by id, in the order in which they were opened.
type open[T any] struct {
	at    map[string]*entry[T]
	order []*entry[T]
}

type entry[T any] struct {
	id      string
	value   T
	dropped bool
}

func (o *open[T]) len() int { return len(o.at) }

func (o *open[T]) get(id string) (value T, ok bool) {
	if e := o.at[id]; e != nil {
		return e.value, true
	}
	return value, false
}

// put adds a value, or replaces the one with that id, which keeps its place.
func (o *open[T]) put(id string, value T) {
	if e := o.at[id]; e != nil {
		e.value = value
		return
	}
	if o.at == nil {
		o.at = map[string]*entry[T]{}
	}
	e := &entry[T]{id: id, value: value}
	o.at[id] = e
	o.order = append(o.order, e)
}

func (o *open[T]) drop(id string) {
	e := o.at[id]
	if e == nil {
		return
	}
	delete(o.at, id)
	*e = entry[T]{dropped: true}
	// Remove the gaps when they are more than half, so that dropping stays cheap on average.
	if len(o.order) > 2*len(o.at) {
		kept := make([]*entry[T], 0, len(o.at))
		for _, e := range o.order {
			if !e.dropped {
				kept = append(kept, e)
			}
		}
		o.order = kept
	}
}

// each yields the values, oldest first. The caller may drop values meanwhile.
func (o *open[T]) each() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, e := range o.order {
			if !e.dropped && !yield(e.id, e.value) {
				return
			}
		}
	}
}
