package announce_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// silentSpellings are replies that say nothing, as models write them.
var silentSpellings = []string{
	// Lists, headings, quotations.
	"1. NO_REPLY", "1) NO_REPLY", "(1) NO_REPLY", "12. NO_REPLY", "+ NO_REPLY", "* NO_REPLY", "# NO_REPLY",
	"a) NO_REPLY", "(a) NO_REPLY", "A. NO_REPLY", "iv. NO_REPLY", `1\. NO_REPLY`, "1: NO_REPLY", "1 - NO_REPLY", "1\ufe0f\u20e3 NO_REPLY",
	"- [x] NO_REPLY", "NO_REPLY\n===", "NO_REPLY\n---",
	"### NO_REPLY", "> 1. NO_REPLY", "- [ ] NO_REPLY", "1. **NO_REPLY**", "> ## NO_REPLY", "→ NO_REPLY", "1. NO_REPLY\n2. NO_REPLY",
	// Emphasis, quotes, punctuation, repetitions.
	"**NO_REPLY** **NO_REPLY**", `"NO_REPLY" "NO_REPLY"`, "NO_REPLYNO_REPLY", "NO_REPLY, NO_REPLY.", "***NO_REPLY***", "__NO_REPLY__",
	"'NO_REPLY'", "“NO_REPLY”", "‘NO_REPLY’", "„NO_REPLY“", "«NO_REPLY»", "‹NO_REPLY›", "‚NO_REPLY‘", "`NO_REPLY`", "``NO_REPLY``",
	"「NO_REPLY」", "『NO_REPLY』", "＂NO_REPLY＂", "＇NO_REPLY＇", `\"NO_REPLY\"`, "NO_REPLY!", "NO_REPLY;", "NO_REPLY…", "NO_REPLY；",
	// Brackets, of full width too.
	"(NO_REPLY)", "[NO_REPLY]", "[[NO_REPLY]]", "{NO_REPLY}", "{{NO_REPLY}}", "（NO_REPLY）", "【NO_REPLY】", "＜NO_REPLY＞", "〈NO_REPLY〉",
	"《NO_REPLY》", "［NO_REPLY］", "｛NO_REPLY｝", "〔NO_REPLY〕", "【ＮＯ＿ＲＥＰＬＹ】",
	// Tags.
	"<NO_REPLY>", "<NO_REPLY/>", "<NO_REPLY />", "<NO_REPLY></NO_REPLY>", "<b>NO_REPLY</b>", "<code>NO_REPLY</code>", "<i>NO_REPLY</i>",
	"<pre><code>NO_REPLY</code></pre>", "<p>NO_REPLY</p>", `<p class="x">NO_REPLY</p>`, "<strong><em>NO_REPLY</em></strong>", "<br/>NO_REPLY<br>",
	"<ul>\n<li>NO_REPLY</li>\n</ul>", "<B>no_reply</B>", "<reply>NO_REPLY</reply>", "<response>NO_REPLY</response>", "<final>NO_REPLY</final>",
	// Objects.
	`{"action":"NO_REPLY"}`, `{"action": "NO_REPLY"}`, "{\n  \"action\": \"NO_REPLY\"\n}", `{"reply":"no_reply"}`, `{'action': 'NO_REPLY'}`,
	`[{"type":"text","text":"NO_REPLY"}]`, `{"content":["NO_REPLY"]}`, `{action: NO_REPLY}`, `{"role":"assistant","content":"NO_REPLY"}`,
	// Behind what is removed and space.
	"<think>x</think> Answer: NO_REPLY", "<think>x</think>\n\n Final answer: NO_REPLY", "<tool_call></tool_call>\tReply: NO_REPLY",
	// Fences.
	"```\nNO_REPLY\n```", "```text\nNO_REPLY\n```", "```json\n{\"action\":\"NO_REPLY\"}\n```", "~~~\nNO_REPLY\n~~~", "~~~txt\nNO_REPLY\n~~~",
	"```\nNO_REPLY", "```text\nNO_REPLY", "``` text\r\nNO_REPLY\r\n```\r\n", "````md\nNO_REPLY\n````", "```NO_REPLY```",
	"```json\n{\n  \"action\": \"NO_REPLY\"\n}\n```",
	// Labels.
	"Final answer: NO_REPLY", "Answer: NO_REPLY", "**Answer:** NO_REPLY", "Reply：NO_REPLY", "Assistant: NO_REPLY", "action: NO_REPLY",
	"Final answer:\nNO_REPLY", "**Response**: `NO_REPLY`",
	// Characters that are not seen, escapes.
	"NO\u200b_REPLY", "\u200bNO_REPLY\ufeff", "NO\u00ad_REPLY", "\u200eNO_REPLY", `NO\_REPLY`, "NO＿REPLY", "NO_REPLY\x00", "\x1b[1mNO_REPLY\x1b[0m",
	// In other words.
	"<think>x</think>\n1. NO_REPLY", "[[reply_to_current]] **NO_REPLY**",
}

// Each spelling is silent for each token, says nothing, and is removed where it stands alone on the
// last lines of a text.
func TestSpellingsOfSilence(t *testing.T) {
	t.Parallel()
	for _, spelling := range silentSpellings {
		for _, token := range []string{
			announce.NoReply, announce.HeartbeatOK, announce.AnnounceSkip,
		} {
			reply := strings.ReplaceAll(spelling, announce.NoReply, token)
			require.Equal(t, announce.DecisionSilent, announce.Decide(reply), "%q", reply)
			checkStream(t, reply, 1, 2, 3, 7)
			after := "All is done.\n" + reply
			text, _ := announce.Visible(after)
			switch reply {
			case token + "\n---", token + "\n===": // a heading
				require.Equal(t, after, text, "%q", after)
			case "Final answer:\n" + token: // a line of its own
				require.Equal(t, "All is done.\nFinal answer:", text, "%q", after)
			default:
				require.Equal(t, "All is done.", text, "%q", after)
			}
			checkStream(t, after, 1, 2, 3, 7)
			again, _ := announce.Visible(text)
			require.Equal(t, text, again)
		}
	}
}

// A token beside a text is removed at the end alone. A text about a token stays.
func TestTokensBesideAText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ reply, want string }{
		{"Done. **NO_REPLY**", "Done."},
		{"Done. NO_REPLY.", "Done."},
		{"Done. (NO_REPLY)", "Done."},
		{"Done! [NO_REPLY]", "Done!"},
		{"Anything else? **NO_REPLY**", "Anything else?"},
		{"好了。 _NO_REPLY_", "好了。"},
		{"Done.\n\n1. NO_REPLY", "Done."},
		{"Done.\n{\n  \"action\": \"NO_REPLY\"\n}", "Done."},
		{"Done.\n```text\nNO_REPLY\n```", "Done."},
		{"Done.\n```\nNO_REPLY", "Done."},
		{"Done.\n<b>\nNO_REPLY\n</b>", "Done."},
		{"```\nx = 1\n```\nNO_REPLY", "```\nx = 1\n```"},
		{"~~~\nx\n~~~\n\nNO_REPLY", "~~~\nx\n~~~"},
		{"```go\nx\n```\n```\nNO_REPLY", "```go\nx\n```"},
		{"Version 2. NO_REPLY", "Version 2."},
		{"C# NO_REPLY", "C#"},
		{"1. one\n2. NO_REPLY", "1. one"},
	} {
		text, ok := announce.Visible(tt.reply)
		require.True(t, ok, "%q", tt.reply)
		require.Equal(t, tt.want, text, "%q", tt.reply)
		checkStream(t, tt.reply, 1, 2, 3, 7)
	}
	for _, reply := range []string{
		`He said "NO_REPLY".`, "Say [NO_REPLY]", "The token is `NO_REPLY`", "Answer with **NO_REPLY**", "Which word? \"NO_REPLY\"",
		"Which word? `NO_REPLY`", "1. NO_REPLY is the word", `{"action":"NO_REPLY","why":"nothing new"}`, `{"wait":"NO_REPLY"}`,
		"<b>NO_REPLY</b> is silent", "# NO_REPLY and HEARTBEAT_OK, the tokens", "Reply NO_REPLY if there is nothing", "1.", "#", "+", "{}", "```\n```",
		"Answer:", `{"action":"reply"}`, "interject.NO_REPLY", "interject.NO_REPLY.", "x NO_REPLYNO_REPLY", "NO_REPLY = 1",
		"```go\nconst x = NO_REPLY\n```", "a) NO_REPLY b) HEARTBEAT_OK or none", "NO_REPLY1",
		"Use it so:\n```go\nif s == NO_REPLY {\n}\n```", "The words (NO_REPLY)", "It is silent. \"NO_REPLY\".",
	} {
		text, ok := announce.Visible(reply)
		require.True(t, ok, "%q", reply)
		require.Equal(t, reply, text)
		checkStream(t, reply, 1, 2, 3, 7)
	}
}
