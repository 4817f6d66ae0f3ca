package announce

import (
	"strings"
	"unicode"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// ReplyTags are what a model asks for with tags in double brackets. The zero ReplyTags ask for
// nothing.
type ReplyTags struct {
	// Current asks for an answer as a native reply to the message at hand: [[reply_to_current]].
	Current bool
	// To is the id of another message that the answer replies to: [[reply_to:<id>]]. It is what
	// the model wrote, of any length, with the angle brackets of a Message-ID of mail. A message
	// with that id need not exist.
	To string
	// Voice asks that the answer be sent as a voice message: [[audio_as_voice]].
	Voice bool
}

// ReadTags returns the reply tags of a model's reply, which [Visible] takes out of its text. A tag
// counts wherever it stands, except in code and in what is hidden, such as a thought. Letter
// case, and white space and invisible characters inside the brackets, do not matter. Of several
// tags that name a message the first one counts. A tag that is malformed asks for nothing and is
// taken out all the same, if it is closed within its paragraph. A silent reply has no tags: it is
// not sent.
//
// ReadTags does not fail, and it takes time linear in the text.
func ReadTags(reply string) ReplyTags {
	var tags ReplyTags
	if _, d := readTagged(reply, &tags); d != DecisionSpeak {
		return ReplyTags{}
	}
	return tags
}

const (
	currentTag = "reply_to_current"
	replyTag   = "reply_to"
	voiceTag   = "audio_as_voice"
)

// A replyTagAt is a tag in double brackets that starts somewhere in a text.
type replyTagAt struct {
	tags ReplyTags
	end  int // the position after its brackets; 0: no tag starts there
}

// maxReplyTag is the number of bytes within which a tag in double brackets is closed.
const maxReplyTag = 8192

// parseReplyTag reads the tag in double brackets at a position, which has a '['. One that is
// malformed is a tag, too, and asks for nothing. It takes time linear in the tag, which ends before
// another one begins.
func parseReplyTag(v *ahead.View, at int) (t replyTagAt) {
	near := v.Within(at, maxReplyTag)
	defer func() { v.Join(near) }()
	at, ok := doubled(&near, at, '[')
	if !ok {
		return t
	}
	name, i := replyTagName(&near, skipBlank(&near, at))
	isTo := strings.EqualFold(name, replyTag)
	if !isTo && !strings.EqualFold(name, currentTag) && !strings.EqualFold(name, voiceTag) {
		return t
	}
	if r, _ := near.Rune(i); isWord(r) || r == '-' {
		return t // it is the beginning of another name
	}
	inner, end := replyTagInside(&near, i)
	if t.end = end; end == 0 {
		return t
	}
	id, hasID := strings.CutPrefix(strings.TrimLeftFunc(inner, isBlankRune), ":")
	switch blank := strings.TrimFunc(inner, isBlankRune) == ""; {
	case isTo && hasID:
		t.tags.To = replyTagID(id)
	case !isTo && blank:
		t.tags.Voice = strings.EqualFold(name, voiceTag)
		t.tags.Current = !t.tags.Voice
	}
	return t
}

// doubled returns the position after the bracket at a position and a second one like it, and false
// if that does not follow.
func doubled(v *ahead.View, at int, bracket byte) (after int, ok bool) {
	at = skipBlank(v, at+1)
	if v.Byte(at) != bracket {
		return at, false
	}
	return at + 1, true
}

// replyTagName returns the letters and underscores at a position, without invisible characters
// between them, and where they end.
func replyTagName(v *ahead.View, at int) (name string, end int) {
	var letters [len(currentTag) + 1]byte // no name is longer
	n := 0
	for end = at; n < len(letters); {
		r, size := v.Rune(end)
		switch {
		case size == 0:
			return string(letters[:n]), end
		case r == '_' || r|0x20 >= 'a' && r|0x20 <= 'z':
			letters[n] = v.S[end]
			n++
		case !isInvisible(r):
			return string(letters[:n]), end
		}
		end += size
	}
	return string(letters[:n]), end
}

// replyTagInside returns what stands between a position and the brackets that close a tag, and the
// position after them. The position is 0 if the tag is not closed: a paragraph ends before, or
// another pair of brackets opens.
func replyTagInside(v *ahead.View, at int) (inner string, end int) {
	said := false // what stands inside is not blank
	for i := at; !v.Ended(i); {
		switch c := v.S[i]; {
		case c == '[' || c == ']':
			next, ok := doubled(v, i, c)
			if ok && c == ']' {
				return v.S[at:i], next
			}
			if ok {
				return "", 0
			}
			i, said = next, true
		case c == '\n':
			next := skipBlank(v, i)
			if said && strings.Count(v.S[i:next], "\n") > 1 && v.Byte(next) != ']' {
				return "", 0
			}
			i = next
		default:
			said = said || c > ' '
			i++
		}
	}
	return "", 0
}

// isBlankRune reports whether skipBlank passes over r.
func isBlankRune(r rune) bool { return unicode.IsSpace(r) || isInvisible(r) }

// replyTagID returns the id in a tag, without the angle brackets of the example that models copy.
// Those of a Message-ID of mail, which has an "@", belong to the id. An id with a bracket, or with
// characters that are not drawn on one line, is not one.
func replyTagID(id string) string {
	id = strings.TrimFunc(id, isIgnored)
	inner, opens := strings.CutPrefix(id, "<")
	inner, closes := strings.CutSuffix(inner, ">")
	if opens && closes && !strings.Contains(inner, "@") {
		id = strings.TrimFunc(inner, isIgnored)
	}
	odd := func(r rune) bool { return r == '[' || r == ']' || r != ' ' && isShapeless(r) }
	if strings.ContainsFunc(id, odd) {
		return ""
	}
	return id
}

// add adds the tags that come next in a text.
func (t *ReplyTags) add(next ReplyTags) {
	if t == nil {
		return
	}
	if !t.Current && t.To == "" {
		t.Current, t.To = next.Current, next.To
	}
	t.Voice = t.Voice || next.Voice
}
