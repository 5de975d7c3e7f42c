package wire

// BudgetLeft returns the bytes left in a budget.
func BudgetLeft(b *Budget) int64 { return b.left.Load() }

// BufferSize returns the current size of a Reader's buffer.
func BufferSize(r *Reader) int { return len(r.buf) }
