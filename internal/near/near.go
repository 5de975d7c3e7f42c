// Package near suggests the word that a misspelt one probably means.
package near

// Word returns the word of a list that is most like the given one, with at most limit
// letters inserted, deleted, replaced or swapped; "" when none is. Of equals it is the first.
func Word(word string, words []string, limit int) string {
	best := ""
	for _, w := range words {
		if d := distance(word, w, limit); d <= limit && (best == "" || d < limit) {
			best, limit = w, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap to get from a to b. It
// stops counting beyond limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
