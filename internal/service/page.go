package service

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// place is the position of an entry in a list: lists are ordered by time, and entries of the same time
// by id. An entry keeps its position while others come and go, so a page also continues behind an entry
// that the list no longer has.
type place struct {
	at time.Time
	id string
}

// compare orders ids of different length by length, because commands are numbered.
func (p place) compare(q place) int {
	return cmp.Or(p.at.Compare(q.at), cmp.Compare(len(p.id), len(q.id)), cmp.Compare(p.id, q.id))
}

// String is the place as a cursor.
func (p place) String() string { return p.at.UTC().Format(time.RFC3339Nano) + "/" + p.id }

func parsePlace(cursor string) (place, error) {
	text, id, ok := strings.Cut(cursor, "/")
	at, err := time.Parse(time.RFC3339Nano, text)
	if !ok || err != nil || id == "" {
		return place{}, api.InvalidParam("after", "%.60q is not the next of an earlier page; begin again without after", cursor)
	}
	return place{at, id}, nil
}

// page orders a list, and returns the part of it that p selects, and the cursor of the next part.
func page[T any](list []T, p api.Page, where func(T) place) (part []T, next string, err error) {
	order := func(a, b place) int { return a.compare(b) }
	if p.NewestFirst {
		order = func(a, b place) int { return b.compare(a) }
	}
	slices.SortFunc(list, func(a, b T) int { return order(where(a), where(b)) })
	if p.After != "" {
		after, err := parsePlace(p.After)
		if err != nil {
			return nil, "", err
		}
		first := slices.IndexFunc(list, func(one T) bool { return order(where(one), after) > 0 })
		if first < 0 {
			first = len(list)
		}
		list = list[first:]
	}
	if p.Limit != nil && len(list) > *p.Limit {
		list = list[:*p.Limit]
		next = where(list[len(list)-1]).String()
	}
	return list, next, nil
}
