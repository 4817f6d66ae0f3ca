package wal

// SetLimit sets the most bytes that a payload may have.
func (l *Log) SetLimit(n int) { l.limit = n }

// SetLimit sets the most bytes that a payload may have.
func (w *Writer) SetLimit(n int) { w.limit = n }
