package announce_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// C1: the tags that a prompt tells of are read, and people do not see them.
func TestReplyTags(t *testing.T) {
	t.Parallel()
	current, to5 := announce.ReplyTags{Current: true}, announce.ReplyTags{To: "5"}
	voice, none := announce.ReplyTags{Voice: true}, announce.ReplyTags{}
	longID := strings.Repeat("x", 4096)
	for _, tt := range []struct {
		name, reply string
		tags        announce.ReplyTags
		text        string
	}{
		{"current", "[[reply_to_current]] Hello", current, "Hello"},
		{"current, glued", "[[reply_to_current]]Hello", current, "Hello"},
		{"an id", "[[reply_to:5]] Hello", to5, "Hello"},
		{"voice", "[[audio_as_voice]]\nHello", voice, "Hello"},
		{"spread", "[ [  Reply_To : 5 ] ] Hello", to5, "Hello"},
		{"spread over lines", "[[\nreply_to_current\n]]\nHello", current, "Hello"},
		{"invisible characters", "[\u200b[reply_to\u200b:5]]Hello", to5, "Hello"},
		{"in upper case", "[[REPLY_TO_CURRENT]] Hello", current, "Hello"},
		{
			"an id with spaces and signs", "[[reply_to: AA:b/1 ]] Hello",
			announce.ReplyTags{To: "AA:b/1"},
			"Hello",
		},
		{"as the example is written", "[[reply_to:<5>]] Hello", to5, "Hello"},
		{
			"a Message-ID of mail", "[[reply_to:<a.1@host>]] Hello",
			announce.ReplyTags{To: "<a.1@host>"},
			"Hello",
		},
		{
			"a long id", "[[reply_to:" + longID + "]] Hello",
			announce.ReplyTags{To: longID},
			"Hello",
		},
		{"a bracket in the id", "[[reply_to:a]b]] Hello", none, "Hello"},
		{"an opening bracket in it", "[[reply_to:a[b]] Hello", none, "Hello"},
		{"a line break in it", "[[reply_to:a\nb]] Hello", none, "Hello"},
		{"a return in it", "[[reply_to:a\r\nb]] Hello", none, "Hello"},
		{"an invisible character in it", "[[reply_to:a\u200bb]] Hello", announce.ReplyTags{To: "ab"}, "Hello"},
		{"the name is broken", "[[reply_\u200bto_current]] Hello", current, "Hello"},
		{"the name of voice is broken", "[[audio\u2060_as_voice]] Hello", voice, "Hello"},
		{"an id of the current one", "[[reply_to_current:5]] Hello", none, "Hello"},
		{"more than a name", "[[audio_as_voice now]] Hello", none, "Hello"},
		{"without a colon", "[[reply_to 5]] Hello", none, "Hello"},
		{"the name alone", "[[reply_to]] Hello", none, "Hello"},
		{"within another", "[[reply_to:[[audio_as_voice]]5]] Hello", announce.ReplyTags{
			Voice: true, To: "5",
		}, "Hello"},
		{
			"closed in another paragraph", "[[reply_to:5 a\n\nb]] Hello", none,
			"[[reply_to:5 a\n\nb]] Hello",
		},
		{"malformed in code", "`[[reply_to:a]b]]`", none, "`[[reply_to:a]b]]`"},
		{"at the end", "Hello [[reply_to_current]]", current, "Hello"},
		{"within", "Hello [[audio_as_voice]] you", voice, "Hello you"},
		{"between lines", "a\n[[audio_as_voice]]\nb", voice, "a\nb"},
		{
			"both", "[[reply_to_current]][[audio_as_voice]] Hello",
			announce.ReplyTags{Current: true, Voice: true},
			"Hello",
		},
		{"the first one names the message", "[[reply_to:5]] [[reply_to_current]] Hello", to5, "Hello"},
		{"after a thought", "<think>[[reply_to:7]]</think>[[reply_to:5]] Hello", to5, "Hello"},
		{"in a thought", "<think>[[reply_to:7]]</think>Hello", none, "Hello"},
		{"in a final block", "<final>[[reply_to_current]] Hello</final>", current, "Hello"},
		{"put together", "[[reply_to_<think>x</think>current]] Hello", current, "Hello"},
		{"an id that is not drawn", "[[reply_to:a\u2028b]] Hello", none, "Hello"},
		{"without an id", "[[reply_to:]] Hello", none, "Hello"},
		{"inline code", "Write `[[reply_to_current]]` first", none, "Write `[[reply_to_current]]` first"},
		{"fenced code", "```\n[[reply_to:5]]\n```", none, "```\n[[reply_to:5]]\n```"},
		{"another word", "[[reply_to_sender]] Hello", none, "[[reply_to_sender]] Hello"},
		{"a link of a wiki", "see [[reply]]", none, "see [[reply]]"},
		{"one bracket", "[reply_to_current] Hello", none, "[reply_to_current] Hello"},
		{"not closed", "[[reply_to:5 Hello", none, "[[reply_to:5 Hello"},
		{"closed by one bracket", "[[reply_to:5] Hello", none, "[[reply_to:5] Hello"},
		{"tags alone", "[[reply_to_current]]", none, ""},
		{"silence", "[[reply_to_current]] NO_REPLY", none, ""},
		{"no tag", "Hello", none, "Hello"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.tags, announce.ReadTags(tt.reply))
			text, _ := announce.Visible(tt.reply)
			require.Equal(t, tt.text, text)
			e := testEvent(func(c *spawn.Completion) { c.Run.Result.Text = tt.reply })
			require.Equal(t, tt.text, e.ForPerson(), "the result of a sub-agent has none either")
		})
	}
}
