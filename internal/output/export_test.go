package output

// SkipSeq uses up n sequence numbers, as n records of the other stream would.
func (l *Log) SkipSeq(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq += n
	l.last = none
}
