package announce_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// markupDifferences are the rows of testdata/markup.json of which Visible leaves more on purpose.
var markupDifferences = differences{
	"Qwen: closing tag alone": {"Need to check.\n\n\nThe build is green.", "a text that comes in pieces " +
		"is shown before the closing tag comes, and a Stream must show what is shown of the whole"},
	"Granite: thought in prose": {"Here is my thought process:\nNeed to check.\n\nHere is my response:\n" +
		"The build is green.", "a person may have asked for it"},
}

// A markupRow is control markup of one family of models, or of terminals and Unicode, and what a
// person has to see of it. Some rows are texts that look alike and stay as they are.
type markupRow struct {
	Family  string `json:"family"`
	Form    string `json:"form"`
	Input   string `json:"input"`
	Visible string `json:"visible"` // "" if nothing is left to see
	Source  string `json:"source"`  // tokenizer, template or documentation that has the markup
}

func TestMarkupIsNotVisible(t *testing.T) {
	t.Parallel()
	for _, row := range readMarkup(t) {
		text, ok := announce.Visible(row.Input)
		require.Equal(t, text != "", ok, "%q", row.Input)
		markupDifferences.check(t, row.Family+": "+row.Form, row.Visible, text)
	}
}

// Texts that look like the markup of templates, name it, or hold it as their subject stay as they
// are.
func TestNamedMarkupStays(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Llama 2 begins an instruction with [INST] and has no role.",
		"Mistral writes [TOOL_CALLS] before a call, then [ARGS] before the arguments.",
		"The mark is [TOOL_CALLS]",
		"Use [THINK] to begin a thought. Then close it.",
		"[INSTALL] [IMG]https://example.com/a.png[/IMG] [EOS] is the end of a sequence.",
		"[user] and [|] and [| x |] stay.",
		"<s>$50</s> $40, and <s>old</s> new.", "It was <s>wrong</s> right.",
		"It costs <s>$50</s>\n<s>$45</s>\n$40.",
		"Set <tools> in the file, and <schema>; then <cite>see there</cite>.",
		"<tools>one</tools> <schema>two</schema>",
		"The tag <tool_response> holds what the tool returned.",
		"Write <system-reminder> to remind it.",
		"<function> and <function=exec> begin a call.",
		"a >> b >>> c", ">>> f(x)", "x >>>y\nz", ">>>>>>> main\n{", ">> a\n>> b\n>>> c",
		"ls >>ANSWER.txt", "functools.reduce(f, [1])", "import functools",
		"functools[0] is the module.", "functools[\"cache\"] = None", "functools[[1, 2]]",
		"functools[-1]", "a:contentReference[oaicite] b", "See :contentReference and oaicite:0.",
		":contentReference[oaicite:x]{index=0}", "::content", "a: b :: c",
		"`<|thinking|>a<|/thinking|>` and `<|begin_of_thought|>`", "```\n<|think|>\na\n```",
		"`<unused94>thought` <unused>", "`<longcat_think>` <longcat_thinking> <think_never_used>",
		"<think_never> stays", "see functools[{\"a\": 1}]",
		"a ✿ b ✿FUNCTION✿ c", "◁ back ▷ on", "【注】 see 【4】 and 【a†b】", "{render} {render_inline}",
		"if a]~b { c }", "]~ and ]<] stay", "~~~\n]~b]user\nhi\n~~~",
		"Fill in:\nHost:\nUser: ann", "Human: hello", "User:", "- User:", "The User:",
		"Use /nothink", "see docs/nothink", "a /no_think b",
		"### Instruction: press it", "a <| b |> c |> d", "x <|> y", "<reserved_a> <mask> <co: x>",
		"<extra_id_> <unused>", "Assistant: a person who helps.",
		"```\n[INST] a [/INST]\n<s>b</s>\n>>>all\n✿FUNCTION✿: x\n```", "`[THINK]` `</s>` `◁think▷`",
		"`<|turn>model` and `]~b]ai`", "<turn> <channel> <|turn",
	} {
		got, _ := announce.Visible(text)
		require.Equal(t, text, got)
		require.Equal(t, announce.Redact(text), streamed(text, 3))
	}
}

// The text around the markup of templates stays, and that of others than the assistant goes.
func TestMarkupOfTurns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[INST] a [/INST] b [INST] c [/INST] d":               "b  d",
		"[INST] a [INST] b [/INST] c":                         "c",
		"a [THINK]b[/THINK] c":                                "a  c",
		"a\n[THINK]b":                                         "a",
		"a [THINK]b":                                          "a [THINK]b",
		"a</s><s>[INST] b [/INST] c":                          "a c",
		"a</s>USER: b ASSISTANT: c":                           "a c",
		"<s>[INST] a [/INST] b</s>":                           "b",
		"a[TOOL_CALLS]exec[ARGS]{\"a\": \"}\"} b":             "a b",
		"a[TOOL_CALLS] [{\"name\": \"x\"":                     "a",
		"a[TOOL_CALLS]exec[ARGS]":                             "a",
		"[|system|]a[|endofturn|]\n[|assistant|]b":            "b",
		"]~b]user\na[e~[\n]~b]ai\nb[e~[":                      "b",
		"<start_of_turn>user\na":                              "",
		"<SPECIAL_10>System\na\n<SPECIAL_11>Assistant\nb":     "b",
		"<|turn>system\na<turn|>\n<|turn>model\nb<turn|>":     "b",
		"✿FUNCTION✿: x\n✿ARGS✿: {}\n✿RESULT✿: a\n✿RETURN✿: b": "b",
		">>>all\na\n>>>exec\n{\"a\": 1}\n>>>all\nb":           "a\n\nb",
		"a\nfunctools[{\"name\": \"x\"}]\nb":                  "a\n\nb",
		"a\n\nHuman:\nUser:\n":                                "a",
		"a\nUser: NO_REPLY":                                   "a",
		"NO_REPLY\nUser:":                                     "",
		"a.\nUser:\n\n":                                       "a.",
		"\n\nAssistant:\n\nAssistant: a":                      "a",
		"a./nothink\nUser:":                                   "a.",
		"<tool_call></tool_call>a<tool_calls> </tool_calls>":  "a",
		"a\ue200cite b":                                       "acite b",
		"STATS: RUNTIME 1s • tokens n/a • SESSIONKEY k\nb":    "b",

		"<start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb": "b",

		"<|channel>thought\n" + strings.Repeat("long ", 200) + "<channel|>a": "a",

		"a <|tool_call>call:x{" + strings.Repeat("long ", 200) + "}<tool_call|>b": "a b",

		"<seed:bos>user\na<seed:eos><seed:bos>assistant\nb<seed:eos>": "b",

		"<|from|>user\n<|recipient|>all\n<|content|>a<|stop|><|from|>assistant\n<|recipient|>all\n<|content|>b": "b",

		"<|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nb": "b",

		"<tool_response>a</tool_response>b<tool_response>c": "b<tool_response>c",

		"a <cite index=\"1\">b</cite> <cite>c</cite>": "a b <cite>c</cite>",

		"<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"x\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>\na": "a",

		"a\ue200cite\ue202turn0search1\ue202turn0search2\ue201 b": "a b",

		"<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\na\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>\nb": "b",

		"<<<COMPLETION a1>>>\nx\n<<<End Of Completion A1>>>\nb": "b",
	} {
		got, _ := announce.Visible(text)
		require.Equal(t, want, got, "%q", text)
		again, _ := announce.Visible(got)
		require.Equal(t, got, again, "%q", text)
		for n := 1; n < 9; n++ {
			require.Equal(t, announce.Redact(want), streamed(text, n), "%q by %d", text, n)
		}
	}
}

// Each row means the same to Visible, to Visible once more and to a Stream, wherever it is cut.
func TestMarkupInPieces(t *testing.T) {
	t.Parallel()
	for _, row := range readMarkup(t) {
		once, _ := announce.Visible(row.Input)
		again, _ := announce.Visible(once)
		require.Equal(t, once, again, "%s: %s", row.Family, row.Form)
		for size := 1; size < 7; size++ {
			var s announce.Stream
			shown := ""
			for rest := row.Input; rest != ""; {
				n := min(size, len(rest))
				shown += s.Write(rest[:n])
				rest = rest[n:]
			}
			shown += s.Close()
			require.Equal(t, announce.Redact(once), shown, "%s: %s by %d", row.Family, row.Form, size)
		}
	}
}

func TestMarkupRowsAreWhole(t *testing.T) {
	t.Parallel()
	rows := readMarkup(t)
	families, names := make(map[string]bool), make(map[string]bool)
	for _, row := range rows {
		name := row.Family + ": " + row.Form
		require.False(t, names[name], "%s stands twice", name)
		names[name], families[row.Family] = true, true
		require.NotEmpty(t, row.Input, name)
		require.NotEmpty(t, row.Source, name)
		require.NotEmpty(t, row.Form, name)
	}
	require.GreaterOrEqual(t, len(rows), 150)
	require.GreaterOrEqual(t, len(families), 30)
}

func readMarkup(t testing.TB) []markupRow {
	t.Helper()
	data, err := os.ReadFile("testdata/markup.json")
	require.NoError(t, err)
	var rows []markupRow
	require.NoError(t, json.Unmarshal(data, &rows))
	return rows
}
