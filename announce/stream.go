package announce

import "strings"

// A Stream is [Visible] and [Redact] for a text that comes in pieces, such as the deltas of a
// model. What its methods return, one after another, is Redact of what Visible returns for the
// whole text. The pieces may be cut anywhere, also inside a rune. Of a silent text nothing shows.
//
// The zero Stream is ready. A Stream is not safe for concurrent use, and it must not be copied
// after the first Write.
type Stream struct {
	text   strings.Builder
	closed bool
}

// Write takes the next piece of the text and returns what may be shown now, which is "" while that
// is not known. After Close it takes nothing and returns "".
func (s *Stream) Write(chunk string) string {
	if !s.closed {
		s.text.WriteString(chunk)
	}
	return ""
}

// Close ends the text and returns the rest of what is shown. A second Close returns "".
func (s *Stream) Close() string {
	if s.closed {
		return ""
	}
	s.closed = true
	text, _ := Visible(s.text.String())
	s.text = strings.Builder{}
	return Redact(text)
}
