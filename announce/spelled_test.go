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
	// Characters that HTML escapes.
	"&#78;O_REPLY", "NO&#95;REPLY", "NO&#x5F;REPLY", "NO&lowbar;REPLY", "&#78;&#79;&#95;&#82;&#69;&#80;&#76;&#89;", "&lt;NO_REPLY&gt;",
	"&quot;NO_REPLY&quot;", "&#34;NO_REPLY&#x22;", "&nbsp;NO_REPLY&nbsp;", "&ldquo;NO_REPLY&rdquo;", "**NO&#95;REPLY**", "NO_REPLY&#33;",
	// Emojis behind the token.
	"NO_REPLY 👍", "NO_REPLY👍", "**NO_REPLY** 🤐", "NO_REPLY. 🙏🏽", "NO_REPLY ✔️", "NO_REPLY 👩‍🚀🇩🇪", "NO_REPLY 🤐 NO_REPLY 🤐", "- NO_REPLY ✅",
	// Formulas.
	"$NO_REPLY$", "$$NO_REPLY$$", "$$\nNO_REPLY\n$$", `\(NO\_REPLY\)`, `\[NO\_REPLY\]`, `\text{NO\_REPLY}`, `$\text{NO\_REPLY}$`, `\boxed{NO_REPLY}`,
	"\\[\n\\boxed{\\text{NO\\_REPLY}}\n\\]", `\texttt{NO\_REPLY}`, `$\mathrm{NO\_REPLY}$.`,
	"\\begin{equation}\nNO\\_REPLY\n\\end{equation}", `\begin{center}\texttt{NO\_REPLY}\end{center}`, "\\begin{align*}\nNO_REPLY\n\\end{align*}",
	// Punctuation of questions, of addresses, of programs.
	"NO_REPLY?", "¿NO_REPLY?", "¡NO_REPLY!", "NO_REPLY！？", "NO_REPLY‽", "NO_REPLY&", "%NO_REPLY", "@NO_REPLY", "^NO_REPLY^", "/NO_REPLY", "// NO_REPLY", "→NO_REPLY←",
	// A break of a line, or a tab, that is written as an escape.
	`\nNO_REPLY\n`, `\n\nNO_REPLY`, `NO_REPLY\r\n`, `\tNO_REPLY`, `"NO_REPLY\n"`, `{"text":"NO_REPLY\n"}`, `\n**NO_REPLY**\n`,
	// Tags with attributes.
	`<span style='color:red'>NO_REPLY</span>`, "<div class=\"a\" id=\"b\">\nNO_REPLY\n</div>", `<message role="assistant">NO_REPLY</message>`,
	`<p style="font-family: 'Courier New', monospace; font-size: 12px; color: #333333; margin: 0; padding: 0">NO_REPLY</p>`,
	`<a href="https://example.com/?a=b&c=d">NO_REPLY</a>`, "<table><tr><td colspan=2>NO_REPLY</td></tr></table>", "<section>NO_REPLY</section>", "<!-- NO_REPLY -->",
	// Symbols behind the token that are keys of a telephone, or are drawn as text.
	"NO_REPLY 1\ufe0f\u20e3", "NO_REPLY #\ufe0f\u20e3", "NO_REPLY *\ufe0f\u20e3", "NO_REPLY 0\u20e3", "NO_REPLY ‼\ufe0f", "NO_REPLY ↔\ufe0f", "0\u20e3 NO_REPLY",
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

// A silent reply that says to skip takes back what was said before, however it is spelled.
func TestSpellingsOfSkip(t *testing.T) {
	t.Parallel()
	for _, spelling := range silentSpellings {
		skip := strings.ReplaceAll(spelling, announce.NoReply, announce.AnnounceSkip)
		require.Equal(t, skip != spelling, announce.Skips(skip), "%q", skip)
	}
	for _, skip := range []string{`ANNOUNCE\_SKIP`, "ＡＮＮＯＵＮＣＥ＿ＳＫＩＰ", "ANNOUNCE&#95;SKIP", "&#65;NNOUNCE_SKIP 👍"} {
		require.True(t, announce.Skips(skip), "%q", skip)
		require.False(t, announce.Skips("x "+skip), "%q", skip)
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
		{"Done. NO_REPLY 👍", "Done."},
		{"Done 👍 NO_REPLY 👍", "Done 👍"},
		{"👍 NO_REPLY", "👍"},
		{"👍\nNO_REPLY 🤐", "👍"},
		{"Done. **NO_REPLY** 🙏🏽", "Done."},
		{"Done. NO&#95;REPLY", "Done."},
		{"Done.\n&lt;NO_REPLY&gt;", "Done."},
		{"Done.\n$\\boxed{NO\\_REPLY}$", "Done."},
		{"Done. $NO_REPLY$", "Done."},
		{"Done.\n\\[\nNO\\_REPLY\n\\]", "Done."},
		{"So:\n$$\nx\n$$\nNO_REPLY", "So:\n$$\nx\n$$"},
		{"Done.\n\\begin{equation}\nNO\\_REPLY\n\\end{equation}", "Done."},
		{`Done.\nNO_REPLY`, "Done."},
		{`Done.\n\n**NO_REPLY**\n`, "Done."},
		{`Done. NO_REPLY\n`, "Done."},
		{"Done. NO_REPLY 1\ufe0f\u20e3", "Done."},
		{"Done. NO_REPLY #\ufe0f\u20e3 👍", "Done."},
		{"Done. <b>NO_REPLY</b>", "Done."},
		{"Done. <i>NO_REPLY</i>.", "Done."},
		{`Done. <span class="x">NO_REPLY</span>`, "Done."},
		{"Done. <NO_REPLY>", "Done."},
		{"Done<br>NO_REPLY", "Done"},
		{"Done.<br/>NO_REPLY<br/>", "Done."},
		{"<p>Done</p><p>NO_REPLY</p>", "<p>Done</p>"},
		{`<p>Done.</p> <div id="a"><b>NO_REPLY</b></div>`, "<p>Done.</p>"},
		{"Anything else?NO_REPLY NO_REPLY", "Anything else?NO_REPLY"},
		{"100% NO_REPLY", "100%"},
		{"Which one?\nNO_REPLY?", "Which one?"},
		{"What?! **NO_REPLY**", "What?!"},
		{"C:\\new NO_REPLY", "C:\\new"},
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
		// What has an emoji without a token, an escape of another character, another formula.
		"👍", "NO_REPLY 👍 all is well", "NO_REPLY\n👍 Ann", "Done.\nNO_REPLY is it 👍", "&#77;O_REPLY", "NO&#96;REPLY", "&amp;#78;O_REPLY",
		"NO&#95REPLY", "R&D", "AT&T &", "&lt;b&gt;", "&notit;NO_REPLY", `\frac{NO\_REPLY}`, `\boxed{4}`, "$", "It costs 5 $", `\text{`, "$x$",
		`{"a":"NO_REPLY"}`, // data, of which the token may be what was asked for
		// A question, a name, a share, a path, a program, an environment and a tag that say more.
		"NO_REPLY? Yes.", "Why NO_REPLY?", "Should I say NO_REPLY?", "Which word? NO_REPLY?", "NO_REPLY @ann", "Hello @NO_REPLY", "NO_REPLY 100%", "NO_REPLY & more",
		"a/NO_REPLY", "https://example.com/NO_REPLY", `fmt.Print("Done.\nNO_REPLY")`, `\nabla NO_REPLY x`, `NO_REPLY\n1`, "\\begin{tikz}\nNO_REPLY\n\\end{tikz}",
		"\\begin{equation}\nx\n\\end{equation}", "Answer with <b>NO_REPLY</b>", "The word is <code>NO_REPLY</code>", "It is silent. <code>NO_REPLY</code>.", `<img alt="x">NO_REPLY`, "<p>NO_REPLY is it</p>",
		"1\ufe0f\u20e3", "#\ufe0f\u20e3 NO_REPLY is it", "x#\ufe0f\u20e3", "?", "50%", "&", "@ann", "/new",
		"Use it so:\n```go\nif s == NO_REPLY {\n}\n```", "The words (NO_REPLY)", "It is silent. \"NO_REPLY\".",
	} {
		text, ok := announce.Visible(reply)
		require.True(t, ok, "%q", reply)
		require.Equal(t, reply, text)
		checkStream(t, reply, 1, 2, 3, 7)
	}
}
