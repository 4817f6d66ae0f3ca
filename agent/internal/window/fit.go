package window

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// Limit returns how many tokens of a window a call may send: four fifths. The rest is for the
// answer.
func Limit(tokens int) int { return tokens/5*4 + tokens%5*4/5 }

// leastShare is how many tokens a message is cut to at least before others are left out.
const leastShare = 64

// Capped returns the tokens of messages of which each counts at most a quarter of room.
func Capped(sizes []int, room int) int { return capped(sizes, room/4) }

// capped returns the tokens of messages of which each counts at most so many.
func capped(sizes []int, most int) (all int) {
	for _, n := range sizes {
		all = sat.Add(all, min(n, most))
	}
	return all
}

// Fit returns messages as they fit into so many tokens: as they are if they do. Otherwise the
// greatest ones are cut, all to the same size, with a note where something is missing. What is too
// much even so is left out from the oldest on, with a message that says how many; the first ones
// that are pinned go last. A call is not parted from its results. Kept is how many messages at the
// end are there, cut or whole. Fit fails if not even the newest message with its results fits.
func (c Counter) Fit(
	messages []session.Message, pinned, room int,
) (fit []session.Message, kept int, ok bool) {
	sizes, all := c.Messages(messages)
	if all <= room {
		return messages, len(messages), true
	}
	if short := shortIDs(messages); short != nil {
		return c.Fit(short, pinned, room)
	}
	for ; ; pinned = 0 {
		start := c.oldest(messages, sizes, pinned, room)
		head := messages[:pinned:pinned]
		if start > pinned {
			head = append(head, leftOut(start-pinned))
		}
		shown := append(head, messages[start:]...)
		now, _ := c.Messages(shown)
		for share := room / 2; share > 0; share /= 2 {
			if capped(now, share) > room {
				continue
			}
			if fit, ok := c.cutAll(shown, now, share, room); ok {
				return fit, len(messages) - start, true
			}
		}
		if pinned == 0 {
			return nil, 0, false
		}
	}
}

// maxID is how many bytes an id of a call has at most that is shown when a conversation is cut.
// Those of common providers are shorter.
const maxID = 64

// shortIDs returns messages in which the ids of calls that are too long are short, or nil if there
// are none. Equal ids stay equal. The provider's form, which has the long ones, is left out.
func shortIDs(messages []session.Message) (short []session.Message) {
	of := func(i int) *session.Message {
		if short == nil {
			short = slices.Clone(messages)
		}
		short[i].Raw = nil
		return &short[i]
	}
	for i := range messages {
		if id := messages[i].ToolCallID; len(id) > maxID {
			of(i).ToolCallID = shortID(id)
		}
		for j, call := range messages[i].ToolCalls {
			if len(call.ID) <= maxID {
				continue
			}
			m := of(i)
			m.ToolCalls = slices.Clone(m.ToolCalls)
			m.ToolCalls[j].ID = shortID(call.ID)
		}
	}
	return short
}

// shortID returns an id in the place of a longer one: its beginning and a digest.
func shortID(id string) string {
	digest := sha256.Sum256([]byte(id))
	return text.Cut(id, maxID-33) + "-" + hex.EncodeToString(digest[:16])
}

// oldest returns the index of the oldest message that is there if each is cut to its least share.
func (c Counter) oldest(messages []session.Message, sizes []int, pinned, room int) int {
	least := max(room/16, leastShare)
	line := leftOut(len(messages))
	tokens, start := c.Message(&line), len(messages)
	for i := range pinned {
		tokens = sat.Add(tokens, min(sizes[i], least))
	}
	for i := len(messages) - 1; i >= pinned; i-- {
		tokens = sat.Add(tokens, min(sizes[i], least))
		if messages[i].Role == session.MessageTool {
			continue
		}
		if start < len(messages) && tokens > room {
			break
		}
		start = i
	}
	return start
}

// leftOut returns what stands in the place of messages.
func leftOut(n int) session.Message {
	return session.Message{
		Role: session.MessageUser, Internal: true,
		Text: "[Offshoot] " + text.Count(n, "message is", "messages are") + " left out here.",
	}
}

// cutAll returns messages of which each takes at most share tokens, if they take room together.
func (c Counter) cutAll(
	messages []session.Message, sizes []int, share, room int,
) (fit []session.Message, ok bool) {
	fit = make([]session.Message, len(messages))
	all := 0
	for i, m := range messages {
		size := sizes[i]
		if size > share {
			m = c.cut(m, share)
			size = c.Message(&m)
		}
		fit[i], all = m, sat.Add(all, size)
	}
	return fit, all <= room
}

// cut returns a message that takes at most so many tokens, or as few as it can, with a note of what
// is left out. The provider's form is left out without one: it repeats what the message has.
func (c Counter) cut(m session.Message, tokens int) session.Message {
	if m.Raw != nil {
		if m.Raw = nil; c.Message(&m) <= tokens {
			return m
		}
	}
	note := ""
	if n := min(len(m.Parts), tokens/2/perPart); n < len(m.Parts) {
		note = fmt.Sprintf("\n[Offshoot] %s left out here, such as pictures.",
			text.Count(len(m.Parts)-n, "part is", "parts are"))
		m.Parts = m.Parts[:n:n]
	}
	bare := m
	bare.Text = ""
	if c.Message(&bare) > tokens/2 {
		m.ToolCalls = c.cutCalls(m.ToolCalls, tokens/2)
		bare.ToolCalls = m.ToolCalls
	}
	m.Text = c.CutText(m.Text, tokens-c.Message(&bare)-c.Text(note)) + note
	return m
}

// cutCalls returns calls whose arguments are left out where they take more than their share.
func (c Counter) cutCalls(calls []session.ToolCall, tokens int) []session.ToolCall {
	cut := make([]session.ToolCall, len(calls))
	for i, call := range calls {
		if c.Text(string(call.Args)) > tokens/len(calls) {
			short := fmt.Sprintf(`{"_left_out":"%d bytes"}`, len(call.Args))
			if len(short) > len(call.Args) || c.Text(short) > tokens/len(calls) {
				short = "{}"
			}
			call.Args = json.RawMessage(short)
		}
		cut[i] = call
	}
	return cut
}

// CutText returns a text that takes at most so many tokens: its beginning and its end, and a note
// of what is left out between them. The note is there even if it takes more.
func (c Counter) CutText(s string, tokens int) string {
	all := c.Text(s)
	if all <= tokens || s == "" {
		return s
	}
	keep := int(float64(len(s)) / float64(all) * float64(max(tokens, 0)))
	for ; ; keep = keep * 3 / 4 {
		head := text.Cut(s, keep-keep/4)
		tail := cutFront(s, keep/4)
		left := len(s) - len(head) - len(tail)
		short := head + fmt.Sprintf("\n[Offshoot] %s left out here.\n",
			text.Count(left, "byte is", "bytes are")) + tail
		if keep == 0 {
			return strings.TrimSpace(short)
		}
		if c.Text(short) <= tokens {
			return short
		}
	}
}

// cutFront returns the end of a text, of at most n bytes of whole characters.
func cutFront(s string, n int) string {
	at := max(len(s)-n, 0)
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}
