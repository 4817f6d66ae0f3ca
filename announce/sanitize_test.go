package announce_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/vectors"
)

func TestSanitize(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		// Thoughts.
		{"a thought goes, the space around it stays", "Hello <think>x</think> world!", "Hello  world!"},
		{"nested thoughts are counted, so that no part of a thought is left", "<think>a<think>b</think>c</think>d", "d"},
		{"a lone closing tag goes alone", "a</think>b", "ab"},
		{"space and letter case do not hide a tag", "A < think >c< /think > B", "A  B"},
		{"a thought that is never closed goes to the end", "Before <think>x", "Before"},
		{"a longer name is another tag", "<thoughts>x</thoughts>", "<thoughts>x</thoughts>"},
		{"final tags go alone", "<final>ok</final>", "ok"},
		{"a fenced thought stays, one behind the fence goes", "```\n<think>a</think>\n```\n<think>h</think>v", "```\n<think>a</think>\n```\nv"},
		{"a lone backtick shields nothing", "Start `unclosed <think>h</think> end", "Start `unclosed  end"},
		{"all names and namespaces of a thought", "a<antml:thinking>x</antml:thinking>b<mm:think>y</mm:think>c", "abc"},
		{"a mention inside a thought does not swallow the answer", "<think>use <think> here</think>Answer", "Answer"},
		{"a thought that breaks off in a code block does not swallow the answer", "<think>\n```go\nx :=\n</think>\nAnswer", "Answer"},
		{"a call inside a thought does not swallow the answer", `<think>maybe <tool_call>{"a":1</think>Answer`, "Answer"},
		{"invisible characters do not hide a tag", "<\u200bthi\u00adnk>x</th\u2060ink>y", "y"},
		{"attributes may hold brackets", `<think a="<b>">x</think>y`, "y"},
		{"attributes in single quotes may hold brackets", `<think a='<b>'>x</think>y`, "y"},
		{"a letter outside of ASCII makes another name", "<thinké>x</thinké>", "<thinké>x</thinké>"},
		{"a letter that looks alike makes another name", "<thin\u212A>x</thin\u212A>", "<thin\u212A>x</thin\u212A>"},

		// Memory.
		{"a memory block goes", "A<relevant-memories>x</relevant-memories>B", "AB"},
		{"a memory block that is never closed goes to the end", "Hello\n<relevant-memories>\nx", "Hello"},
		{"a memory block in code stays", "```\n<relevant-memories>x</relevant-memories>\n```", "```\n<relevant-memories>x</relevant-memories>\n```"},
		{"a memory block with attributes goes, in any letter case", "<RELEVANT_MEMORIES a=1>x</relevant-memories>", ""},

		// Tool calls.
		{"a call goes with its arguments", `Checking now. <function_calls>{"name":"exec"}</function_calls> Done.`, "Checking now.  Done."},
		{"a call that is never closed goes to the end", "Let me run.\n<tool_call>\n{\"name\":\"find\"}\n", "Let me run."},
		{"a call whose tag is not complete goes", "prefix\n<tool_call\n{\"name\":\"find\"}", "prefix"},
		{"a mention of a call stays", "Use <tool_call> to invoke tools.", "Use <tool_call> to invoke tools."},
		{"a closing tag in a string does not end a call", `<tool_call>{"a":"</tool_call>"}</tool_call>z`, "z"},
		{"an escaped quote does not end a string of a call", `<tool_call>{"a":"\"</tool_call>"}</tool_call>z`, "z"},
		{"the closing tag of a result does not end a call", `<tool_call>{"name":"x"}</tool_result>LEAK</tool_call>`, ""},
		{"an empty call goes alone", "prefix <tool_call/> suffix", "prefix  suffix"},
		{"a longer name is not a call", "<tool_call-example>{}</tool_call-example>", "<tool_call-example>{}</tool_call-example>"},
		{"a call in inline code stays", "`<tool_call>{}</tool_call>` x", "`<tool_call>{}</tool_call>` x"},
		{"a list of calls goes", `ok <tool_calls>[{"name":"x"}`, "ok"},
		{"the closing tag of a call ends a result", `<tool_result>{"ok":1}</tool_call>z`, "z"},
		{"a call with arguments in tags goes", "a<function_calls><invoke name=\"x\"><parameter name=\"a\">1<\x2fparameter><\x2finvoke></function_calls>b", "ab"},
		{"nested calls in tags are counted", "a<tool_call><tool_call><function=x></tool_call>y</tool_call>b", "ab"},
		{"a mention keeps one closing tag, the next one goes", "a <tool_call> b </tool_call> c </tool_call>d", "a <tool_call> b </tool_call> c d"},

		// Control tokens.
		{"control tokens go", "<|assistant|>Here<|end|>", "Here"},
		{"control tokens with full-width pipes go", "<｜begin▁of▁sentence｜>Hello", "Hello"},
		{"words between which control tokens stood stay apart", "First<|user|><|assistant|>second", "First second"},
		{"only words are kept apart", "(**bold<|assistant|>**). First<|user|><|assistant|>second", "(**bold**). First second"},
		{"a control token in code stays", "`<|x|>`", "`<|x|>`"},
		{"a control token does not hold code", "<| `x` |>", "<| `x` |>"},

		// Downgraded calls and results, and those of MiniMax.
		{"a call in brackets goes with its arguments", "[Tool Call: x (ID: 1)]\nArguments: {\"a\":\"}\"}\nBye", "Bye"},
		{"a call in brackets goes inside a line too", "D [Tool Call: x]\nArguments: {}\nE", "D \nE"},
		{"incomplete arguments of a call in brackets go to the end", "hi\n[Tool Call: x (ID: 1)]\nArguments: {\"a\":1\nrest", "hi"},
		{"a note about an earlier call goes", "a\n[Historical context: b]\nc", "a\nc"},
		{"a note ends with its line if it quotes brackets", "a\n[Historical context: x with {\"a\":[1]} b]\nc", "a\nc"},
		{"a result in brackets goes to the end", "pre\n\n[Tool Result for ID 1]\nout1\n\npost", "pre"},
		{"a result in brackets ends at the next call", "[Tool Result for ID 1]\nA [Tool box]\n[Tool Call: x]\nArguments: {}\nrest", "rest"},
		{"a call in brackets without arguments goes alone", "x [Tool Call: a] y", "x y"},
		{"a result without an id that has its line to itself goes to the end", "pre\n[Tool Result: s]\nout", "pre"},
		{"a result in brackets inside a sentence is a mention", "The [Tool Result] section is next.", "The  section is next."},
		{"an invoke block goes in a text with the tag of MiniMax", "A<invoke name=\"x\">y<\x2finvoke></minimax:tool_call>B", "AB"},
		{"an invoke block stays in any other text", "A<invoke name=\"x\">y<\x2finvoke>B", "A<invoke name=\"x\">y<\x2finvoke>B"},
		{"an invoke block that is never closed goes to the end", "A</minimax:tool_call><invoke name=\"x\">y", "A"},
		{"a call in brackets in code stays", "```\n[Tool Call: a]\n```", "```\n[Tool Call: a]\n```"},

		// Code.
		{"backticks as apostrophes shield nothing", "I`ll <think>secret</think> don`t", "I`ll  don`t"},
		{"inline code ends with its line", "`a\n<think>x</think>\nb`", "`a\n\nb`"},
		{"runs of different length are not code", "``<think>x</think>`", "```"},
		{"an indented fence is a fence", "- a\n    ```\n    <think>x</think>\n    ```", "- a\n    ```\n    <think>x</think>\n    ```"},
		{"a shorter fence does not close a longer one", "````\n```\n<think>x</think>\n````\n<think>y</think>z", "````\n```\n<think>x</think>\n````\nz"},
		{"three backticks on one line are inline code", "```<think>x</think>``` <think>y</think>z", "```<think>x</think>``` z"},

		// What removal puts together is removed as well.
		{"a tag that a removal puts together goes", "<th<think>a</think>ink>secret</think>ok", ""},
		{"a control token that a removal puts together goes", "<|a<|b|>c|>x", "x"},

		// The runtime's own events.
		{"an echoed event goes", "Sure:\n<<<completion n1>>>\nsession key: k\n<<<end of completion n1>>>\nDone.", "Sure:\nDone."},
		{"an event goes when it is quoted, and in code", "Sure:\n```\n> <<<completion n1>>>\n> key\n> <<<end of completion n1>>>\n```", "Sure:\n```\n```"},
		{"an event that is never closed goes to the end", "Sure:\n<<<completion n1>>>\nsession key: k", "Sure:"},
		{"the end marker of another event does not end an event", "<<<completion n1>>>\n<<<end of completion n2>>>\nkept", "kept"},
		{"a marker in a sentence goes alone", "The line <<<completion n1>>> starts it.", "The line  starts it."},
		{"several markers in a sentence go alone", "x <<<completion a>>><<<completion b>>> y", "x  y"},
		{"a stray end marker goes alone", "a\n<<<end of completion n1>>>\nb", "a\n\nb"},
		{"text after an end marker stays", "<<<completion n1>>>\nx\n<<<end of completion n1>>> Bye", "Bye"},
		{"a stats line goes", "Done.\nStats: runtime 1s • tokens n/a • sessionKey agent:main:subagent:1\nBye", "Done.\nBye"},

		{"a line that only names a session stays", "a • sessionKey b", "a • sessionKey b"},

		{"prose stays as it is", "1 < 2 and [a](b) `c` <b>d</b>\n\n  - e", "1 < 2 and [a](b) `c` <b>d</b>\n\n  - e"},
		// O13
		{"thoughts within a thought go with it", "<think>outer <think>inner</think> still outer</think>visible", "visible"},
		{"a memory block that is not closed goes to the end", "ok\n<relevant-memories>x\ny", "ok"},
		{"a paragraph said twice stays", "It works.\n\nIt works.", "It works.\n\nIt works."},

		{"outer space goes", " \uFEFF\t hello \n", "hello"},
		{"an empty text stays empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, announce.Sanitize(tt.text))
		})
	}
}

func TestSanitizeIsIdempotent(t *testing.T) {
	t.Parallel()
	nested := "secret"
	for range 40 { // deeper than a text nests by accident
		nested = "<th<|x|>" + "<think>" + nested
	}
	for _, text := range []string{
		nested,
		strings.Repeat("<th", 50) + strings.Repeat("<think></think>ink>", 50) + "x",
		strings.Repeat("<", 200) + "|a|" + strings.Repeat(">", 200),
		strings.Repeat("<|a", 50) + strings.Repeat("<|b|>|>", 50),
		strings.Repeat("[Tool", 30) + strings.Repeat("[Tool Call: x] Call: x]", 30),
	} {
		once := announce.Sanitize(text)
		require.Equal(t, once, announce.Sanitize(once), "%.60q", text)
	}
}

func FuzzSanitize(f *testing.F) {
	for _, text := range []string{
		"<think>a<think>b</think>c", "a`b`<|x|>", "[Tool Call: x]\nArguments: {\"a\":[1]}\nb", "<tool_call>{\"a\":\"</tool_call>",
		"```\n<think>\n~~~\n", "<<<completion n>>>\nx\n<<<end of completion n>>>", "<minimax:tool_call><invoke>", "\xff<\xffthink>",
		"[[reply_to: 5]] [ [audio_as_voice]]\n`[[reply_to_current]]`",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := announce.Sanitize(text)
		if again := announce.Sanitize(once); again != once {
			t.Fatalf("Sanitize(%q) is %q, and again %q", text, once, again)
		}
		whole := string([]rune(text)) // a byte that is not UTF-8 becomes a character
		if len(once) > len(whole)+strings.Count(text, "<") {
			t.Fatalf("Sanitize(%q) grew to %q", text, once)
		}
	})
}

func TestVectorsVisibleText(t *testing.T) {
	t.Parallel()
	type row struct {
		Name          string
		Text, Visible vectors.Text
	}
	rows := vectors.Read[row](t, "visible-text.json", 157)
	const nesting, code, shown = "nested blocks are counted", "code is left alone", "hidden things must not show"
	known := differences{
		"attr_lt":           {"v", "a quoted attribute may hold a bracket"},
		"nested":            {"d", nesting},
		"reopened":          {"aef", nesting},
		"mem_nested":        {"d", nesting},
		"mem_in_think":      {"yz", "what starts first wins: the block inside the thought ends with it"},
		"reassemble":        {"", "a tag that removal puts together hides what follows"},
		"tick_span_newline": {"`a\n\nb`", "inline code ends with its line, else two stray backticks shield a thought"},
		"many_ticks":        {"", "backtick runs of 101 and 100 are not code; the answer is computed below"},
		"zw":                {"y", "an invisible character must not disable a tag"},
		"sp_multi":          {"hi", "the role of a turn is not for people"},
		"rtl":               {"ab", "an override turns around what people read"},
		"tc_xml":            {"z", shown + ": a call in tags is a call"},
		"fcs_invoke":        {"z", shown + ": a call in tags is a call"},
		"tc_apos_unq":       {"visible", "an apostrophe is not a quote in JSON, and the answer was lost"},
		"sp_nested":         {"", shown + ": what is left is a control token again"},
		"mm_unclosed":       {"", shown + ": what is never closed is hidden to the end"},
		"mm_attr":           {"x", shown},
		"mm_code":           {"```\n<minimax:tool_call><invoke>x<\x2finvoke></minimax:tool_call>\n```", code},
		"dg_code":           {"```\n[Tool Call: a]\n```", code},
		"dg_unclosed":       {"", shown + ": half a call"},
		"dg_result_call":    {"rest", "the text after a later call was lost"},
	}
	for _, row := range rows {
		if row.Name == "many_ticks" {
			want := strings.Replace(string(row.Text), "<think>x</think>", "", 1)
			known[row.Name] = difference{want, known[row.Name].reason}
		}
		known.check(t, row.Name, string(row.Visible), announce.Sanitize(string(row.Text)))
	}
}

// White space of any kind before a text changes nothing: a fence behind it begins a line, in whole
// texts and in pieces of one byte.
func TestLeadsBeforeATextChangeNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"```go\ncode\n```\n<think>SECRET</think>Then:\n```\nmore\n```\nbye",
		"<tool_call>{}</tool_call>\u2028\u200b\n<tool_call>{}</tool_call>x",
		"~~~\n<think>x</think>\n~~~\nbye", "plain",
	} {
		want := announce.Sanitize(text)
		for _, lead := range []string{
			"\r", "\v", "\f", "\u0085", "\u00a0", "\u2003", "\u2028", "\u2029", "\u3000", "\ufeff",
			"\u00a0\n\ufeff ", "\n\n  ",
		} {
			got := announce.Sanitize(lead + text)
			require.Equal(t, want, got, "%+q", lead)
			require.Equal(t, got, announce.Sanitize(got), "%+q", lead)
			visible, _ := announce.Visible(lead + text)
			var s announce.Stream
			shown := ""
			for _, b := range []byte(lead + text) {
				shown += s.Write(string([]byte{b}))
			}
			require.Equal(t, announce.Redact(visible), shown+s.Close(), "%+q", lead)
		}
	}
}

// A sentence that names the tag of a memory block does not hide the rest of a result. The tag of a
// block that was opened and never closed does.
func TestMemoryTagThatASentenceNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"The gateway puts <relevant-memories> before the prompt.\nIt works.", ""},
		{"It adds the tag <relevant_memories> itself. Done.", ""},
		{"Both `<relevant-memories>` and <relevant-memories> count, see below.", ""},
		{"We saw <relevant-memories> is", ""},
		{"Hi <relevant-memories>the user is Ann", "Hi"},
		{"Hi\n<relevant-memories>\nthe user is Ann", "Hi"},
		{"Hi\n<relevant-memories> the user is Ann", "Hi"},
		{"Hi <relevant-memories> is a</relevant-memories> b", "Hi  b"},
		{"Hi <relevant-memories> no_reply", "Hi"},
		{"See <relevant-memories> and </relev<think>x</think>ant-memories>b", "See b"},
	} {
		want := tt.want
		if want == "" {
			want = tt.text
		}
		got, _ := announce.Visible(tt.text)
		require.Equal(t, want, got, "%q", tt.text)
		again, _ := announce.Visible(got)
		require.Equal(t, got, again, "%q", tt.text)
		checkStream(t, tt.text, 1, 2, 3, 5)
	}
}

// O2: inline code that goes on behind a line break and names what would hide the rest of the text
// loses nothing. A thought between two stray backticks goes.
func TestCodeOverLineBreaks(t *testing.T) {
	t.Parallel()
	for _, opening := range []string{
		"<think>", "<thinking>", "<relevant-memories>", "<tool_call>{\"a\":1", "[THINK]",
	} {
		for _, text := range []string{
			"First `" + opening + "\nmore` then\n\nThe answer.",
			"First `use " + opening + " to\nbegin` then the answer.",
			"First ``use " + opening + " to\n`begin` a`` then `x` the answer.",
			"- First `" + opening + "\n  more` then\n- The answer.",
			"First `" + opening + "\nmore` then `" + strings.ReplaceAll(opening, "\n", "") + "` the answer.",
		} {
			require.Equal(t, text, announce.Sanitize(text))
			checkStream(t, text, 1, 2, 3, 7)
			shown, _ := announce.Visible(text + "\nNO_REPLY")
			require.Equal(t, text, shown)
			checkStream(t, text+"\nNO_REPLY", 1, 2, 3, 7)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"`a\n<think>x</think>\nb`", "`a\n\nb`"},
		{"`a <think>x\ny</think>\nb`", "`a \nb`"},
		{"A ` stray <think>x\nuses `y`", "A ` stray"},                            // a blank behind the backtick
		{"A `stray\n<think>x uses `y` and more", "A `stray"},                     // a thought begins its line
		{"A `stray\n\nb <think>x uses `y` and more", "A `stray\n\nb"},            // another paragraph
		{"don`t <think>x\nuses `y` and more", "don`t"},                           // an apostrophe
		{"A `stray <think>x\n`NO_REPLY`", "A `stray"},                            // that one is not shown
		{"A `stray\nuse `<think>` to begin", "A `stray\nuse `<think>` to begin"}, // the span of its line
		{"```\n`a\n```\nb <think>x `y`", "```\n`a\n```\nb"},
		{"A `the\n<think>` to begin. Answer.", "A `the\n<think>` to begin. Answer."},
	} {
		shown, _ := announce.Visible(tt.text)
		require.Equal(t, tt.want, shown, "%q", tt.text)
		again, _ := announce.Visible(shown)
		require.Equal(t, shown, again, "%q", tt.text)
		checkStream(t, tt.text, 1, 2, 3, 7)
	}
}
