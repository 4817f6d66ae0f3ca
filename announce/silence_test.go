package announce_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/vectors"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	const silent, blank = "(silent)", "(blank)"
	tests := []struct{ name, reply, want string }{
		{"silent with outer space", " NO_REPLY\n", silent},
		{"silent in lower case", "no_reply", silent},
		{"silent in mixed case", "No_Reply", silent},
		{"silent with punctuation", "NO_REPLY.", silent},
		{"silent with emphasis", "**NO_REPLY**", silent},
		{"silent when repeated", "NO_REPLY no_reply\n\nNO_REPLY", silent},
		{"silent after a thought", "<think>nothing new</think>\nNO_REPLY", silent},
		{"silent in code", "```\nNO_REPLY\n```", silent},
		{"a token at the end goes", "Done. NO_REPLY", "Done."},
		{"a token on the last line goes with its emphasis", "Report\n\n**NO_REPLY**", "Report"},
		{"several tokens at the end go", "Report\nNO_REPLY\nANNOUNCE_SKIP", "Report"},
		{"a token at the start of a sentence is text", "NO_REPLY but more", "NO_REPLY but more"},
		{"a quoted token in a sentence is text", `He said "NO_REPLY".`, `He said "NO_REPLY".`},
		{"a token glued to a word before it is text", "interject.NO_REPLY", "interject.NO_REPLY"},
		{"a token glued to a word after it is text", "NO_REPLYhello", "NO_REPLYhello"},
		{"a token after an emoji goes", "😄 NO_REPLY", "😄"},
		{"silent with the skip token", "  ANNOUNCE_SKIP  ", silent},
		{"the skip token in another letter case is text", "announce_skip", "announce_skip"},
		{"the skip token at the start of a sentence is text", "ANNOUNCE_SKIP because", "ANNOUNCE_SKIP because"},
		{"the skip token after a text goes", "summary\nANNOUNCE_SKIP", "summary"},
		{"a token with another letter behind it is text", "NO_REPLY\u017f", "NO_REPLY\u017f"},
		{"words without the underscore are text", "NO REPLY", "NO REPLY"},
		{"a thought alone is blank", "<think>x</think>", blank},
		{"space alone is blank", " ", blank},
		{"silent between control tokens", "<|start|>NO_REPLY<|end|>", silent},
		{"silent in a list", "- NO_REPLY", silent},
		{"silent in a list with bullets", "• NO_REPLY", silent},
		{"silent in a quotation", "> NO_REPLY", silent},
		{"silent in brackets", "[NO_REPLY]", silent},
		{"silent in angles", "<NO_REPLY>", silent},
		{"silent in quotes of other languages", "「NO_REPLY」。", silent},
		{"silent with an escaped underscore", `**NO\_REPLY**`, silent},
		{"silent in full-width letters", "ＮＯ＿ＲＥＰＬＹ", silent},
		{"silent with a zero-width space", "NO\u200b_REPLY", silent},
		{"an item of a list goes", "Done.\n- NO_REPLY", "Done."},
		{"a quotation goes", "Done.\n> NO_REPLY", "Done."},
		{"a fence around a token goes", "Done.\n```\nNO_REPLY\n```", "Done."},
		{"a fence around more stays", "```\nx\n```\nNO_REPLY", "```\nx\n```"},
		{"an escaped token at the end goes", `Done. NO\_REPLY`, "Done."},
		{"a full-width token at the end goes", "Done. ＮＯ＿ＲＥＰＬＹ", "Done."},
		{"a token in brackets in a sentence is text", "Say [NO_REPLY]", "Say [NO_REPLY]"},
		{"full-width letters are text", "ＮＯ", "ＮＯ"},
		{"silent in a numbered list", "1. NO_REPLY", silent},
		{"a rule stays", "Done.\n\n---\nMore.", "Done.\n\n---\nMore."},
		{"silent heartbeat", "HEARTBEAT_OK", silent},
		{"silent heartbeat in lower case", " heartbeat_ok\n", silent},
		{"silent heartbeat with emphasis", "**HEARTBEAT_OK**", silent},
		{"silent heartbeat when repeated", "HEARTBEAT_OK\nHEARTBEAT_OK NO_REPLY", silent},
		{"a heartbeat token at the end goes", "done HEARTBEAT_OK", "done"}, // O12
		{"a heartbeat token after an asterisk goes", "done*HEARTBEAT_OK", "done"},
		{"a heartbeat token in a sentence is text", "HEARTBEAT_OK is the word", "HEARTBEAT_OK is the word"},
		{"a glued heartbeat token is text", "done.HEARTBEAT_OK", "done.HEARTBEAT_OK"},
		{"silent after a reply tag", "[[reply_to_current]] NO_REPLY", silent},
		{"a reply tag alone is blank", "[[reply_to_current]]", blank},
		{"a token does not shield a tag before it", "<think>x NO_REPLY", blank},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text, ok := announce.Visible(tt.reply)
			switch tt.want {
			case silent:
				require.Equal(t, announce.DecisionSilent, announce.Decide(tt.reply))
			case blank:
				require.Equal(t, announce.DecisionDefer, announce.Decide(tt.reply))
			default:
				require.Equal(t, announce.DecisionSpeak, announce.Decide(tt.reply))
				require.True(t, ok)
				require.Equal(t, tt.want, text)
				return
			}
			require.False(t, ok)
			require.Empty(t, text)
		})
	}
}

func TestSkips(t *testing.T) {
	t.Parallel()
	require.True(t, announce.Skips("<think>x</think> ANNOUNCE_SKIP"))
	require.True(t, announce.Skips("NO_REPLY ANNOUNCE_SKIP"))
	require.False(t, announce.Skips("NO_REPLY"))
	require.False(t, announce.Skips("Report\nANNOUNCE_SKIP"))
	require.False(t, announce.Skips(""))
}

func TestDecisionText(t *testing.T) {
	t.Parallel()
	for _, d := range []announce.Decision{
		0, announce.DecisionSpeak, announce.DecisionSilent, announce.DecisionDefer,
	} {
		text, err := d.MarshalText()
		require.NoError(t, err)
		require.Equal(t, d.String(), string(text))
		var back announce.Decision
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, d, back)
	}
	_, err := announce.Decision(9).MarshalText()
	require.EqualError(t, err, "announce: 9 is not a decision")
	require.Equal(t, "Decision(9)", announce.Decision(9).String())
	var d announce.Decision
	require.EqualError(t, d.UnmarshalText([]byte("maybe")),
		`announce: unknown decision "maybe", want one of ["none" "speak" "silent" "defer"]`)
}

// S10: a text that is visible says something, and not a silent token alone.
func TestVisibleSaysSomething(t *testing.T) {
	t.Parallel()
	parts := []string{
		"<tool_call>[", "<tool_call>{", "<think>", "[[reply_to:", "***", "\n\n", " ", "\u200b", "NO_REPLY",
		"HEARTBEAT_OK", "ANNOUNCE_SKIP", "<|", "[Tool Result",
	}
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				for _, gap := range []string{"", " ", "\n"} {
					for _, reply := range []string{
						a + gap + b + gap + c, a + gap + b + gap + c + gap + "NO_REPLY",
						a + "\n***\n\n" + b + gap + c + "\n\nHEARTBEAT_OK",
					} {
						text, ok := announce.Visible(reply)
						require.Equal(t, ok, !announce.IsBlank(text), "%q is %q", reply, text)
						require.False(t, ok && announce.IsSilent(text),
							"%q is %q", reply, text)
					}
				}
			}
		}
	}
	for _, reply := range []string{"<tool_call>[ NO_REPLY", "NO_REPLY\n***\n\nHEARTBEAT_OK"} {
		text, ok := announce.Visible(reply)
		require.False(t, ok, reply)
		require.Empty(t, text, reply)
		require.Equal(t, announce.DecisionSilent, announce.Decide(reply), reply)
	}
}

func FuzzVisible(f *testing.F) {
	for _, reply := range []string{
		"NO_REPLY", "x\n*NO_REPLY*", "<think>NO_REPLY", "a ANNOUNCE_SKIP no_reply", "`NO_REPLY <think>`", "**NO_REPLY", "x HEARTBEAT_OK",
		"<tool_call>[ NO_REPLY", "NO_REPLY\n***\n\nHEARTBEAT_OK", "[[reply_to:a]b]] NO_REPLY",
	} {
		f.Add(reply)
	}
	for _, row := range readMarkup(f) {
		f.Add(row.Input)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		text, ok := announce.Visible(reply)
		if again, stillOK := announce.Visible(text); again != text || stillOK != ok {
			t.Fatalf("Visible(%q) is %q, and again %q, %v", reply, text, again, stillOK)
		}
		if ok != (announce.Decide(reply) == announce.DecisionSpeak) || ok != (text != "") {
			t.Fatalf("Visible(%q) is %q, %v, and Decide %v", reply, text, ok, announce.Decide(reply))
		}
		if ok && (announce.IsBlank(text) || announce.IsSilent(text)) {
			t.Fatalf("Visible(%q) is %q: a person reads nothing", reply, text)
		}
		// A person must never see a token on the last line.
		for line := range strings.Lines(text) {
			word := strings.TrimSpace(line)
			isToken := strings.EqualFold(word, announce.NoReply) ||
				strings.EqualFold(word, announce.HeartbeatOK)
			if isToken && strings.HasSuffix(text, line) {
				t.Fatalf("Visible(%q) ends with a token: %q", reply, text)
			}
		}
	})
}

func TestVectorsSilentTokens(t *testing.T) {
	t.Parallel()
	type row struct {
		Text                 string
		Silent, AnnounceSkip bool
		Stripped             string
	}
	// The reference looks at the raw text and at one token at a time; "" stands for nothing to
	// send.
	const around, repeated = "what surrounds the token gives it no meaning, and a person must not see it", "repeated tokens say no more than one"
	known := differences{
		"NO_REPLY.":                   {"", around},
		"**NO_REPLY**":                {"", around},
		"`NO_REPLY`":                  {"", around},
		`"NO_REPLY"`:                  {"", around},
		"NO_REPLY\x00":                {"", around},
		"\u200bNO_REPLY":              {"", around},
		"\u200bANNOUNCE_SKIP":         {"", around},
		"ANNOUNCE_SKIP.":              {"", around},
		"NO_REPLY NO_REPLY":           {"", repeated},
		"ANNOUNCE_SKIP ANNOUNCE_SKIP": {"", repeated},
		"<think>x</think>NO_REPLY":    {"", "tokens are read in the visible text"},
		"HEARTBEAT_OK":                {"", "the answer to a heartbeat is silent in every reply"},
		`{"action":"NO_REPLY"}`:       {"", around},
		`{"action":" NO_REPLY "}`:     {"", around},
		`{"action":"no_reply"}`:       {"", around},
		"ＮＯ_ＲＥＰＬＹ":                    {"", "models with an IME's letters mean the token"},
		"x ANNOUNCE_SKIP":             {"x", "a token alone at the end is not text, whichever it is"},
	}
	for _, r := range vectors.Read[row](t, "silent-tokens.json", 54) {
		want := r.Stripped
		if r.Silent || r.AnnounceSkip {
			want = ""
			require.Equal(t, announce.DecisionSilent, announce.Decide(r.Text), "%q", r.Text)
		}
		got, _ := announce.Visible(r.Text)
		known.check(t, r.Text, want, got)
	}
}

// A mark of direction within a silent token, which stays in a text with letters that are written
// from right to left, makes no other word of it.
func TestMarksOfDirectionInTokens(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"NO_REPLY", "no\\_reply", "ＮＯ_REPLY", "HEARTBEAT_OK", "ANNOUNCE_SKIP"} {
		letters := []rune(token)
		for at := range len(letters) + 1 {
			for _, mark := range []string{"\u200e", "\u200f", "\u061c"} {
				marked := string(letters[:at]) + mark + string(letters[at:])
				for _, before := range []string{"سلام", "שלום.", "a שלום b"} {
					for _, between := range []string{"\t", " ", "\n", "\n\n- ", " *"} {
						text := before + between + marked
						got, ok := announce.Visible(text)
						require.True(t, ok)
						require.Equal(t, before, strings.TrimSuffix(got, mark), "%q", text)
						checkStream(t, text, 1, 2, 3)
					}
				}
				require.Equal(t, announce.DecisionSilent, announce.Decide("\u200f"+marked), "%q", marked)
			}
		}
	}
	for _, text := range []string{"سلام NO_\u200ex", "سلام aNO_\u200eREPLY", "سلام N\u200e O_REPLY"} {
		got, _ := announce.Visible(text)
		require.Equal(t, text, got)
	}
}
