package wal

// SetLimit sets how many bytes a payload may have.
func (l *Log) SetLimit(n int) { l.limit = n }

// SetLimit sets how many bytes a payload may have.
func (w *Writer) SetLimit(n int) { w.limit = n }
