package secret

// A Masker is Mask for a text that comes in pieces. The zero Masker is ready.
type Masker struct{ text []byte }

// Write takes the next piece.
func (m *Masker) Write(piece string) string { m.text = append(m.text, piece...); return "" }

// Close ends the text.
func (m *Masker) Close() string { return Mask(string(m.text)) }
