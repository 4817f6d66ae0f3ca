package announce_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// A textCase is a row of section 9 of what the field's reference says of announcements: a text and
// what becomes of it.
type textCase struct {
	id      int
	differs string // what of it is otherwise here, and why
	of      func(in string) string
	rows    [][2]string // in and out
}

// silence is what visible returns for a reply that says nothing.
const silence = "(nothing)"

func visible(reply string) string {
	if text, ok := announce.Visible(reply); ok {
		return text
	}
	return silence
}

func durationOf(ms string) string {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return err.Error()
	}
	return announce.FormatDuration(time.Duration(n) * time.Millisecond)
}

func tokensOf(s string) string {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return err.Error()
	}
	return announce.FormatTokens(n)
}

func dollarsOf(s string) string {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return err.Error()
	}
	return announce.FormatUSD(v)
}

// textCases are the rows of texts alone. The others need a run, a history or a receiver: see
// docs/conformance.md.
var textCases = []textCase{
	{
		id: 1, differs: "a day has 24 hours, so that 25 hours are one day and one hour",
		of: durationOf, rows: [][2]string{
			{"312000", "5m12s"},
			{"0", "n/a"},
			{"-5", "n/a"},
			{"499", "0s"},
			{"500", "1s"},
			{"1500", "2s"},
			{"59499", "59s"},
			{"59500", "1m0s"},
			{"3599500", "1h0m"},
			{"3661000", "1h1m"},
			{"90061000", "1d1h"},
		},
	},
	{id: 2, of: tokensOf, rows: [][2]string{
		{"999", "999"},
		{"1000", "1.0k"},
		{"1049", "1.0k"},
		{"1050", "1.1k"},
		{"12000", "12.0k"},
		{"197000", "197.0k"},
		{"999950", "1.0m"},
		{"1000000", "1.0m"},
		{"1234000000", "1234.0m"},
		{"-3", "0"},
	}},
	{
		id: 3, differs: "there is one form of tokens, that of case 2", of: tokensOf,
		rows: [][2]string{
			{"1234", "1.2k"}, {"12000", "12.0k"}, {"999999", "1.0m"}, {"2550000", "2.5m"},
		},
	},
	{id: 4, of: dollarsOf, rows: [][2]string{
		{"0", "$0.0000"},
		{"0.0042", "$0.0042"},
		{"0.00995", "$0.0100"},
		{"0.01", "$0.01"},
		{"0.999", "$1.00"},
		{"1.234", "$1.23"},
		{"NaN", ""},
	}},
	{id: 8, of: visible, rows: [][2]string{
		{" NO_REPLY\n", silence},
		{"no_reply", silence},
		{"NO_REPLY.", silence},
		{"**NO_REPLY**", silence},
		{"NO_REPLY NO_REPLY", silence},
	}},
	{id: 9, of: visible, rows: [][2]string{
		{"Done. NO_REPLY", "Done."},
		{"NO_REPLY but more", "NO_REPLY but more"},
		{"interject.NO_REPLY", "interject.NO_REPLY"},
		{"😄 NO_REPLY", "😄"},
	}},
	{id: 10, of: visible, rows: [][2]string{
		{"  ANNOUNCE_SKIP  ", silence},
		{"announce_skip", "announce_skip"},
		{"ANNOUNCE_SKIP because", "ANNOUNCE_SKIP because"},
	}},
	{id: 20, of: announce.Sanitize, rows: [][2]string{
		{"Hi <think>secret</think>there", "Hi there"},
	}},
	{id: 22, of: announce.Sanitize, rows: [][2]string{
		{"Hello <think>x</think> world!", "Hello  world!"},
	}},
	{
		id: 23, differs: "thoughts are counted, so that no part of the outer one is left",
		of:   announce.Sanitize,
		rows: [][2]string{{"<think>a<think>b</think>c</think>d", "d"}},
	},
	{id: 24, of: announce.Sanitize, rows: [][2]string{{"a</think>b", "ab"}}},
	{id: 25, of: announce.Sanitize, rows: [][2]string{{"A < think >c< /think > B", "A  B"}}},
	{id: 26, of: announce.Sanitize, rows: [][2]string{{"Before <think>x", "Before"}}},
	{id: 27, of: announce.Sanitize, rows: [][2]string{
		{"<thoughts>x</thoughts>", "<thoughts>x</thoughts>"},
	}},
	{id: 28, of: announce.Sanitize, rows: [][2]string{{"<final>ok</final>", "ok"}}},
	{id: 29, of: announce.Sanitize, rows: [][2]string{
		{"```\n<think>a</think>\n```\n<think>h</think>v", "```\n<think>a</think>\n```\nv"},
	}},
	{id: 30, of: announce.Sanitize, rows: [][2]string{
		{"Start `unclosed <think>h</think> end", "Start `unclosed  end"},
	}},
	{id: 31, of: announce.Sanitize, rows: [][2]string{
		{"A<relevant-memories>x</relevant-memories>B", "AB"},
		{"Hello\n<relevant-memories>\nx", "Hello"},
		{
			"```\n<relevant-memories>x</relevant-memories>\n```",
			"```\n<relevant-memories>x</relevant-memories>\n```",
		},
		{"<RELEVANT_MEMORIES a=1>x</relevant-memories>", ""},
	}},
	{id: 32, of: announce.Sanitize, rows: [][2]string{
		{
			`Checking now. <function_calls>{"name":"exec"}</function_calls> Done.`,
			"Checking now.  Done.",
		},
	}},
	{id: 33, of: announce.Sanitize, rows: [][2]string{
		{"Let me run.\n<tool_call>\n{\"name\":\"find\"}\n", "Let me run."},
	}},
	{id: 34, of: announce.Sanitize, rows: [][2]string{
		{"prefix\n<tool_call\n{\"name\":\"find\"}", "prefix"},
	}},
	{id: 35, of: announce.Sanitize, rows: [][2]string{
		{"Use <tool_call> to invoke tools.", "Use <tool_call> to invoke tools."},
	}},
	{id: 36, of: announce.Sanitize, rows: [][2]string{
		{`A<tool_call>{"a":"</tool_call>"}</tool_call>B`, "AB"},
	}},
	{id: 37, of: announce.Sanitize, rows: [][2]string{
		{`<tool_call>{"name":"x"}</tool_result>LEAK</tool_call>`, ""},
	}},
	{id: 38, of: announce.Sanitize, rows: [][2]string{
		{"prefix <tool_call/> suffix", "prefix  suffix"},
	}},
	{id: 39, of: announce.Sanitize, rows: [][2]string{
		{
			`<tool_call-example>{"a":1}</tool_call-example>`,
			`<tool_call-example>{"a":1}</tool_call-example>`,
		},
	}},
	{id: 40, of: announce.Sanitize, rows: [][2]string{
		{"`<tool_call>{}</tool_call>`", "`<tool_call>{}</tool_call>`"},
		{"```\n<tool_call>{}</tool_call>\n```", "```\n<tool_call>{}</tool_call>\n```"},
	}},
	{id: 41, of: announce.Sanitize, rows: [][2]string{
		{"<|assistant|>Here<|end|>", "Here"},
		{"<｜begin▁of▁sentence｜>Hello", "Hello"},
		{"First<|user|><|assistant|>second", "First second"},
		{"`<|end|>`", "`<|end|>`"},
	}},
	{id: 42, of: announce.Sanitize, rows: [][2]string{{`a <tool_calls>[{"name":"x"}`, "a"}}},
	{id: 43, of: announce.Sanitize, rows: [][2]string{
		{"[Tool Call: x (ID: 1)]\nArguments: {\"a\":\"}\"}\nBye", "Bye"},
	}},
	{
		id: 44, differs: "arguments that never end go to the end of the text", of: announce.Sanitize,
		rows: [][2]string{{"hi\n[Tool Call: x (ID: 1)]\nArguments: {\"a\":1\nrest", "hi"}},
	},
	{id: 45, of: announce.Sanitize, rows: [][2]string{{"a\n[Historical context: b]\nc", "a\nc"}}},
	{
		// Where a result ends is not known, so that all behind it goes.
		id: 46, of: announce.Sanitize,
		rows: [][2]string{{"pre\n\n[Tool Result for ID 1]\nout1\n\npost", "pre"}},
	},
	{id: 47, of: announce.Sanitize, rows: [][2]string{{"x [Tool Call: a] y", "x y"}}},
	{id: 48, of: announce.Sanitize, rows: [][2]string{
		{"[Tool Result: s]", ""}, {"[Tool Result ...]", ""},
	}},
	{id: 49, of: announce.Sanitize, rows: [][2]string{
		{`A<invoke name="x">y</invoke></minimax:tool_call>B`, "AB"},
		{`A<invoke name="x">y</invoke>B`, `A<invoke name="x">y</invoke>B`},
		{`A<invoke name="x">y`, `A<invoke name="x">y`},
	}},
	{id: 50, of: announce.Redact, rows: [][2]string{
		{"OPENAI_API_KEY=sk-1234567890abcdef", "OPENAI_API_KEY=sk-123…cdef"},
	}},
	{id: 51, of: announce.Redact, rows: [][2]string{{"TOKEN=shortvalue", "TOKEN=***"}}},
	{id: 52, of: announce.Redact, rows: [][2]string{
		{`{"token":"abcdef1234567890ghij"}`, `{"token":"abcdef…ghij"}`},
	}},
	{id: 53, of: announce.Redact, rows: [][2]string{
		{"curl --token abcdef1234567890ghij https://x", "curl --token abcdef…ghij https://x"},
	}},
	{id: 54, of: announce.Redact, rows: [][2]string{
		{"Authorization: Bearer abcdef1234567890ghij", "Authorization: Bearer abcdef…ghij"},
	}},
	{id: 55, of: announce.Redact, rows: [][2]string{{"bearer short", "bearer short"}}},
	{id: 56, of: announce.Redact, rows: [][2]string{{"sk-abc", "sk-abc"}, {"sk-abcdefgh", "***"}}},
	{id: 57, of: announce.Redact, rows: [][2]string{{
		"https://api.telegram.org/bot1234567890:ABCDEFGHIJKLMNOPQRSTUVWX/getMe",
		"https://api.telegram.org/bot123456…UVWX/getMe",
	}}},
	{id: 58, of: announce.Redact, rows: [][2]string{
		{
			"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\nabcdef\n-----END PRIVATE KEY-----",
			"-----BEGIN PRIVATE KEY-----\n…redacted…\n-----END PRIVATE KEY-----",
		},
		{"-----BEGIN PRIVATE KEY-----MIIEvQIBADANBgkqhkiG-----END PRIVATE KEY-----", "***"},
		{ // behind a word, with which a removed line break has joined it
			"key1-----BEGIN RSA PRIVATE KEY-----\nMIIabcd\n-----END RSA PRIVATE KEY-----",
			"key1-----BEGIN RSA PRIVATE KEY-----\n…redacted…\n-----END RSA PRIVATE KEY-----",
		},
		{"assistant-----BEGIN PRIVATE KEY-----\nMIIabcd", "assistant-----BEGIN PRIVATE KEY-----\n…redacted…"},
		{"a_b-c------BEGIN PRIVATE KEY-----\nMIIabcd", "a_b-c------BEGIN PRIVATE KEY-----\n…redacted…"},
		{"x---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nAAAA", "x---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n…redacted…"},
	}},
	{
		id: 59, differs: "what leaks in the reference is masked, and a word with key in it is not",
		of: announce.Redact, rows: [][2]string{
			{"AKIAIOSFODNN7EXAMPLE", "AKIAIO…MPLE"},
			{"postgres://u:p4ss@h/db", "postgres://u:***@h/db"},
			{`{"api_key":"abcdef1234567890ghij"}`, `{"api_key":"abcdef…ghij"}`},
			{"monkey=banana", "monkey=banana"},
		},
	},
}

// Every row of the reference that is about a text alone is driven, in its order.
func TestTextCases(t *testing.T) {
	t.Parallel()
	want := []int{1, 2, 3, 4, 8, 9, 10, 20}
	for id := 22; id <= 59; id++ {
		want = append(want, id)
	}
	var ids []int
	for _, c := range textCases {
		ids = append(ids, c.id)
		t.Run(fmt.Sprint(c.id), func(t *testing.T) {
			for _, row := range c.rows {
				require.Equal(t, row[1], c.of(row[0]), "%q", row[0])
			}
		})
	}
	require.Equal(t, want, ids)
}
