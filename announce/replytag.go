package announce

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ReplyTags are what a model asks for with tags in double brackets. The zero ReplyTags ask for
// nothing.
type ReplyTags struct {
	// Current asks for an answer as a native reply to the message at hand: [[reply_to_current]].
	Current bool
	// To is the id of another message that the answer replies to: [[reply_to:<id>]]. It is what
	// the model wrote. A message with that id need not exist.
	To string
	// Voice asks that the answer be sent as a voice message: [[audio_as_voice]].
	Voice bool
}

// ReadTags returns the reply tags of a model's reply, which [Visible] takes out of its text. A tag
// counts wherever it stands, except in code and in what is hidden, such as a thought. Letter
// case and white space inside the brackets do not matter. Of several tags that name a message the
// first one counts. A silent reply has no tags: it is not sent.
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

	maxReplyTag = 1024 // bytes of a tag in double brackets
)

// A replyTagAt is a tag in double brackets that starts somewhere in a text.
type replyTagAt struct {
	tags ReplyTags
	end  int // the position after its brackets; 0: no tag starts there
}

// parseReplyTag reads the tag in double brackets at s[at], which is a '['. One that names no
// message is a tag, too, and asks for nothing.
func parseReplyTag(s string, at int) (t replyTagAt) {
	window := s[:min(len(s), at+maxReplyTag)]
	i := skipBlank(window, at+1)
	if !strings.HasPrefix(window[i:], "[") {
		return t
	}
	i = skipBlank(window, i+1)
	name, i := replyTagName(window, i)
	i = skipBlank(window, i)
	switch {
	case strings.EqualFold(name, currentTag):
		t.tags.Current = true
	case strings.EqualFold(name, voiceTag):
		t.tags.Voice = true
	case strings.EqualFold(name, replyTag):
		if strings.HasPrefix(window[i:], ":") {
			t.tags.To, i = replyTagID(window, i+1)
		}
	default:
		return t
	}
	if !strings.HasPrefix(window[i:], "]") {
		return replyTagAt{}
	}
	if i = skipBlank(window, i+1); !strings.HasPrefix(window[i:], "]") {
		return replyTagAt{}
	}
	t.end = i + 1
	return t
}

// replyTagName returns the letters and underscores at s[at], and where they end.
func replyTagName(s string, at int) (name string, end int) {
	end = at
	for end < len(s) && (s[end] == '_' || s[end]|0x20 >= 'a' && s[end]|0x20 <= 'z') {
		end++
	}
	return s[at:end], end
}

// replyTagID returns the id at s[at], without the angle brackets of the example that models copy,
// and where it ends: at a bracket or a line break.
func replyTagID(s string, at int) (id string, end int) {
	end = len(s)
	if i := strings.IndexAny(s[at:], "[]\n\r"); i >= 0 {
		end = at + i
	}
	id = strings.TrimFunc(s[at:end], isIgnored)
	if strings.HasPrefix(id, "<") && strings.HasSuffix(id, ">") {
		id = strings.TrimFunc(id[1:len(id)-1], isIgnored)
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r != ' ' && isShapeless(r) }) {
		id = "" // an id is drawn, on one line
	}
	return id, end
}

// visitReplyTag removes a tag in double brackets, with the space behind it if none is needed. It
// returns false if no tag starts here.
func (l *lexer) visitReplyTag() bool {
	t := parseReplyTag(l.src, l.at)
	if t.end == 0 {
		return false
	}
	l.tags.add(t.tags)
	end := t.end
	before, _ := utf8.DecodeLastRuneInString(l.keptTail())
	if l.keptTail() == "" || unicode.IsSpace(before) {
		end = skipSpaces(l.src, end)
		if l.keptTail() == "" || before == '\n' {
			end = skipLineBreak(l.src, end)
		}
	}
	l.cut(end)
	return true
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
