package api

// MaxPageLimit is the largest page of session.list, exec.list and dialogue.list.
const MaxPageLimit = 10_000

// Page selects a part of a list. Without a limit, the answer has all entries.
type Page struct {
	// Limit is the maximum number of entries in the answer, from 1 to 10000. Absent: all.
	Limit *int `json:"limit,omitempty"`
	// After continues the list: next of the previous page. The order must be the same.
	After string `json:"after,omitempty"`
	// NewestFirst reverses the order.
	NewestFirst bool `json:"newest_first,omitempty"`
}

func (p Page) check() error {
	if p.Limit != nil && (*p.Limit < 1 || *p.Limit > MaxPageLimit) {
		return InvalidParam("limit", "must be from 1 to %d", MaxPageLimit)
	}
	return nil
}

// checkWords checks that each word is one of those that a parameter accepts.
func checkWords[T ~string](field string, words []T, known ...T) error {
	for _, w := range words {
		if !contains(known, w) {
			list := ""
			for i, k := range known {
				if i > 0 {
					list += ", "
				}
				list += string(k)
			}
			return InvalidParam(field, "%.40q is not one of %s", string(w), list)
		}
	}
	return nil
}

// checkStates checks the two parameters that select by state, of which one can be given.
func checkStates[T ~string](one T, several []T, known ...T) error {
	if one != "" && len(several) > 0 {
		return InvalidParam("states", "cannot be given together with state")
	}
	if one != "" {
		return checkWords("state", []T{one}, known...)
	}
	return checkWords("states", several, known...)
}

// selects reports whether a list has entries of this value; it has all if it names none.
func selects[T ~string](one T, several []T, value T) bool {
	if one != "" {
		return one == value
	}
	return len(several) == 0 || contains(several, value)
}
