package announce

import (
	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// A Stream is [Visible] and [Redact] for a text that comes in pieces, such as the deltas of a
// model. What its methods return, one after another, is Redact of what Visible returns for the
// whole text. The pieces may be cut anywhere, also inside a rune. Of a silent text nothing shows.
//
// A Stream holds back what may still turn out to be a tag, a silent token or a secret: of prose at
// most 256 characters, and of any text as much as Visible and Redact look ahead, which is 16 KB
// for each of its passes, and up to half of that more. It takes less than 800 KB of memory, however
// long the text is, and time linear in the text.
//
// A Stream does not say whether the text was silent or had reply tags: at the end of the text, ask
// [Decide] and [ReadTags].
//
// The zero Stream is ready. A Stream is not safe for concurrent use, and it must not be copied
// after the first Write.
type Stream struct {
	drawn  drawn
	lead   lead
	passes passes
	tail   tail
	own    secret.OwnPass // see Redactor.Stream
	masker secret.Masker
	closed bool
}

// Write takes the next piece of the text and returns what may be shown now, which is "" while that
// is not known. After Close it takes nothing and returns "".
func (s *Stream) Write(chunk string) string {
	if s.closed || chunk == "" {
		return ""
	}
	drawn := s.lead.write(s.drawn.pass(chunk, false), false)
	return s.masker.Write(s.own.Write(s.tail.write(s.passes.all(drawn, false))))
}

// Close ends the text and returns the rest of what is shown. A second Close returns "".
func (s *Stream) Close() string {
	if s.closed {
		return ""
	}
	last := s.lead.write(s.drawn.pass("", true), true)
	shown := s.tail.write(s.passes.all(last, true))
	rest, _ := s.tail.close()
	shown = s.own.Write(shown+rest) + s.own.Close()
	shown = s.masker.Write(shown) + s.masker.Close()
	*s = Stream{closed: true}
	return shown
}
