package wire

// BudgetLeft is what is left of a budget.
func BudgetLeft(b *Budget) int64 { return b.left.Load() }

// BufferSize is how large the buffer of a reader is now.
func BufferSize(r *Reader) int { return len(r.buf) }
