package agent_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

const leaked = "sk-abcdefghijklmnopqrstuvwxyz0123"

// The safe view has what readers may see, in every field and every role. The Raw one has
// the messages as they are.
func TestHistoryIsSafe(t *testing.T) {
	long := strings.Repeat("ä", 4001)
	said := []agent.Message{
		{
			Role: session.MessageAssistant, Text: "<think>hm " + leaked + "</think>Four.",
			Raw: json.RawMessage(`{"thinking":"hm"}`), Usage: agent.Usage{Input: 7, Cost: 1},
		},
		{Role: session.MessageAssistant, Text: "NO_REPLY"},
		{Role: session.MessageAssistant, Text: "<tool_call>{\"x\":1}</tool_call>"},
		{Role: session.MessageAssistant, Text: "The key is " + leaked},
		{Role: session.MessageAssistant, Text: long},
		{Role: session.MessageAssistant, Text: long[2:]},
		{Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{
			{ID: "1", Name: "http", Args: json.RawMessage(`{"token":"` + leaked + `"}`)},
			{ID: "2", Name: "http", Args: json.RawMessage(`{"x":"` + long + `"}`)},
		}},
		{Role: session.MessageTool, ToolCallID: "1", Text: "API_KEY=" + leaked},
		{Role: session.MessageTool, ToolCallID: "2", Text: long, Failed: true},
	}
	agenttest.Run(t, recordingConfig(said), nil, func(h *harness) {
		h.Post("my key is " + leaked + ", what is 2+2? <think>")
		synctest.Wait()
		page := historyOf(h, agent.HistoryQuery{})
		require.False(t, page.Archived)
		require.Zero(t, page.Earlier)
		data, err := json.Marshal(page)
		require.NoError(t, err)
		require.NotContains(t, string(data), leaked)
		require.NotContains(t, string(data), "hm ")
		require.NotContains(t, string(data), "thinking")
		require.NotContains(t, string(data), "NO_REPLY")
		cut := strings.Repeat("ä", 4000) + "\n…(truncated, 1 character left out)…"
		require.Len(t, page.Lines, 8)
		for i, want := range []struct {
			text          string
			cut, redacted bool
		}{
			{"<think>", false, true},
			{"Four.", false, false},
			{"The key is sk-", false, true},
			{cut, true, false},
			{long[2:], false, false},
			{"", true, true},
			{"API_KEY=", false, true},
			{cut, true, false},
		} {
			l := page.Lines[i]
			require.Contains(t, l.Message.Text, want.text, i)
			require.Equal(t, want.cut, l.Cut, i)
			require.Equal(t, want.redacted, l.Redacted, i)
			require.Nil(t, l.Message.Raw)
			require.Zero(t, l.Message.Usage)
			require.False(t, l.Message.Time.IsZero())
		}
		calls := page.Lines[5].Message.ToolCalls
		require.True(t, json.Valid(calls[0].Args))
		require.JSONEq(t, `{}`, string(calls[1].Args))
		require.True(t, page.Lines[7].Message.Failed)

		raw := historyOf(h, agent.HistoryQuery{Raw: true})
		require.Len(t, raw.Lines, 1+len(said))
		for i, m := range said {
			require.Equal(t, m.Text, raw.Lines[i+1].Message.Text)
			require.Equal(t, m.Raw, raw.Lines[i+1].Message.Raw)
			require.Equal(t, m.Usage, raw.Lines[i+1].Message.Usage)
			require.Equal(t, m.ToolCalls, raw.Lines[i+1].Message.ToolCalls)
		}
	})
}

// Whatever stands in a field of a line of the store, a page has no credential, no member that this
// version does not know, no bytes of a part, and at most 81,920 bytes.
func TestHistoryOfHostileLines(t *testing.T) {
	skipUnderRace(t)
	huge := strings.Repeat(leaked+" ", 10_000)
	var calls []agent.ToolCall
	var parts []session.Part
	for i := range 200 {
		calls = append(calls, agent.ToolCall{
			ID: fmt.Sprint(i), Name: huge, Args: json.RawMessage(`not JSON ` + huge),
		})
		parts = append(parts, session.Part{
			Kind: session.PartImage, MediaType: "image/png; token=" + leaked,
			Name: "password=" + leaked, URL: "https://u:" + leaked + "@example.com/",
		})
	}
	future, err := json.Marshal(map[string]any{
		"role": "oracle", "text": "x", "seen": leaked,
		"parts": []any{map[string]any{"kind": "smell", "url": "https://x.y/", "odour": leaked}},
	})
	require.NoError(t, err)
	var unknown agent.Message
	require.NoError(t, json.Unmarshal(future, &unknown))
	lines := []agent.Message{
		{
			Role: session.MessageUser, ID: huge, Text: huge,
			From: session.Sender{ID: huge, Name: huge},
		},
		{Role: session.MessageUser, Text: "\xff\xfe" + huge, Model: "x"},
		{Role: session.MessageAssistant, Text: "calls", ToolCalls: calls},
		{Role: session.MessageTool, ToolCallID: huge, Text: huge, Failed: true},
		{Role: session.MessageUser, Text: "look", Parts: parts},
		{Role: session.MessageUser, Internal: true, Text: huge},
		unknown,
	}
	for _, m := range lines {
		page := agent.SafePage(session.Line{Pos: 1, Message: m})
		data, err := json.Marshal(page)
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), 81_920)
		require.NotContains(t, string(data), leaked)
		require.NotContains(t, string(data), "odour")
		require.Len(t, page.Lines, 1)
		require.True(t, page.Lines[0].Cut || page.Lines[0].Redacted || m.Role == "oracle")
	}
	one := agent.Message{Role: session.MessageAssistant, Text: "calls"}
	for i := range 40 {
		one.ToolCalls = append(one.ToolCalls, agent.ToolCall{
			ID: fmt.Sprint(i), Name: "x", Args: json.RawMessage(`"` + strings.Repeat("y", 3900) + `"`),
		})
	}
	page := agent.SafePage(session.Line{Pos: 9, Message: one})
	require.Len(t, page.Lines, 1)
	require.Equal(t, session.Pos(9), page.Lines[0].Pos)
	require.Contains(t, page.Lines[0].Message.Text, "too large")
	require.True(t, page.Lines[0].Cut)
}

// argsOf returns the arguments of a tool call as a page shows them.
func argsOf(t *testing.T, given string) (shown string, redacted bool) {
	t.Helper()
	page := agent.SafePage(session.Line{Pos: 1, Message: agent.Message{
		Role:      session.MessageAssistant,
		ToolCalls: []agent.ToolCall{{ID: "1", Name: "x", Args: json.RawMessage(given)}},
	}})
	require.Len(t, page.Lines, 1)
	return string(page.Lines[0].Message.ToolCalls[0].Args), page.Lines[0].Redacted
}

// However JSON writes a credential into the arguments of a tool call, a page has the arguments
// without it: in a text of any kind, escaped, nested, behind a name, and behind a flag.
func TestHistoryMasksArguments(t *testing.T) {
	const words = "hunter2 correct horse"
	texts := []string{
		`export PASSWORD="` + words + `"`, `x --password="` + words + `" y`, `x --token hunter2 y`,
		`curl -d '{"api_key":"` + words + `"}' https://x.y/`, `Authorization: Basic hunter2`,
		"-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----", `x://u:hunter2@h/`,
		`{"password":"` + words + `"}`, `{"a":["--token","hunter2"]}`, "p\u202eassword=hunter2",
		`say "it": PASSWORD='` + words + `'`, `ghp_hunter2hunter2hunter2hunter2`,
		"pass\x1b[0mword: hunter2", `[{"x":"{\"secret\":\"hunter2 x\"}"}]`,
	}
	var values []string // as JSON
	for _, s := range texts {
		data, err := json.Marshal(s)
		require.NoError(t, err)
		values = append(values, string(data))
	}
	for _, name := range []string{
		"password", "db_password", "API-KEY", "refreshToken", "Authorization", "my password",
		"db.secret", "secret:", "pass\u200fword", "Cookie",
	} {
		data, err := json.Marshal(name)
		require.NoError(t, err)
		for _, value := range []string{
			`"` + words + `"`, `["hunter2"]`, `{"a":{"b":["hunter2",1]},"c":"x"}`,
			`"{\"a\":\"hunter2\"}"`, `[[],{},"hunter2"]`,
		} {
			values = append(values, "{"+string(data)+":"+value+"}")
		}
	}
	values = append(values, `["--password","hunter2"]`, `["a","--api-key",["hunter2"],"b"]`,
		`["-token", "hunter2"]`, `{"--password":"hunter2"}`, `{"password=hunter2":1}`)
	for _, value := range values {
		for _, form := range []string{"%s", `{"a":%s}`, `[1,%s,true]`, `{"a":[{"b":%s}],"n":1e400}`} {
			given := fmt.Sprintf(form, value)
			checkArgs(t, given)
			escaped := strings.NewReplacer("a", `\u0061`, "k", `\u006b`, "2", `\u0032`, "g", `\u0067`)
			if !strings.Contains(given, `\`) && !strings.Contains(given, "true") {
				checkArgs(t, escaped.Replace(given))
			}
		}
	}
	for _, plain := range []string{
		`{}`, `[]`, ` { "z" : 1.50 , "a" : [ null , true ] , "z" : 2 } `, `"text"`, `1e400`, `null`,
		`{"n":123456789012345678901234567890,"html":"<a href=\"x\">&\u00e9","k":"\u0061"}`,
		`{"password":null,"token":true,"secret":"","key":"$API_KEY","token":"***"}`,
		`{"childSessionKey":"agent:main:subagent:1","sessionKey":"agent:main:main"}`,
		`["password","x"]`, `["--passwords","x"]`, `{"doc":"[1, 2]"}`, `not JSON`,
	} {
		shown, redacted := argsOf(t, plain)
		require.Equal(t, plain, shown)
		require.False(t, redacted, plain)
	}
	shown, _ := argsOf(t, `{"z":1.50,"password":"x","a":"<b>","n":12345678901234567890,"z":[]}`)
	require.Equal(t, `{"z":1.50,"password":"***","a":"<b>","n":12345678901234567890,"z":[]}`, shown)
	shown, _ = argsOf(t, `["--password","x",["--api-key",[1,{}],"y"],{"password":7}]`)
	require.Equal(t, `["--password","***",["--api-key","***","y"],{"password":"***"}]`, shown)
	deep := strings.Repeat("[", 1900) + `{"password":"hunter2"}` + strings.Repeat("]", 1900)
	checkArgs(t, deep)
	shown, _ = argsOf(t, `{"password": "hunter2`)
	require.NotContains(t, shown, "hunter2")
}

// checkArgs checks that arguments that are JSON are so on a page, without the credential in them.
func checkArgs(t *testing.T, given string) {
	t.Helper()
	shown, redacted := argsOf(t, given)
	require.True(t, json.Valid([]byte(given)) && json.Valid([]byte(shown)), "%s is %s", given, shown)
	require.True(t, redacted, given)
	for _, word := range []string{"hunter2", `\u0068`, "correct", "horse"} {
		require.NotContains(t, shown, word, given)
	}
	again, redacted := argsOf(t, shown)
	require.Equal(t, shown, again)
	require.False(t, redacted, shown)
}

// What steers a terminal or the direction of a text is in no field of a page, and neither hides a
// credential or a thought nor shows one.
func TestHistoryHasNoControls(t *testing.T) {
	const bad = "a\x1b[31mb\x1b]0;t\ac\u009b1md\x00e\x7ffg\u202eh\u2066i\u200ej\x1bMk"
	args, err := json.Marshal(map[string]any{bad: []any{bad, `{"x":"` + bad + `"}`}})
	require.NoError(t, err)
	said := agent.Message{
		Role: session.MessageUser, Text: bad + "\n\tx\ry", ID: bad + "\r\u0085", ToolCallID: bad, Model: bad,
		From: session.Sender{ID: bad, Name: bad},
		ToolCalls: []agent.ToolCall{
			{ID: bad, Name: bad, Args: args}, {Args: json.RawMessage("not JSON " + bad)},
		},
		Parts: []session.Part{
			{Kind: "x" + bad, MediaType: "image/" + bad, Name: bad, URL: "https://x.y/" + bad},
		},
	}
	unknown, answer := said, said
	unknown.Role, answer.Role = session.MessageRole(bad), session.MessageAssistant
	for _, m := range []agent.Message{said, answer, unknown} {
		const good = "abcdefghijk"
		page := agent.SafePage(session.Line{Pos: 1, Message: m})
		require.Len(t, page.Lines, 1)
		want := agent.Message{
			Role: m.Role, Text: good + "\n\tx\ny", ID: good, ToolCallID: good, Model: good,
			From: session.Sender{ID: good, Name: good},
			ToolCalls: []agent.ToolCall{
				{ID: good, Name: good, Args: page.Lines[0].Message.ToolCalls[0].Args},
				{Args: json.RawMessage("not JSON " + good)},
			},
			Parts: []session.Part{
				{Kind: "x" + good, MediaType: "image/" + good, Name: good, URL: "https://x.y/" + good},
			},
		}
		if m.Role == bad {
			want.Role = good
		}
		require.Equal(t, want, page.Lines[0].Message)
		require.JSONEq(t, `{"abcdefghijk":["abcdefghijk","{\"x\":\"abcdefghijk\"}"]}`,
			string(want.ToolCalls[0].Args))
	}
	for text, want := range map[string]string{
		"<thi\u200enk>hm</think>Four.":             "Four.",
		"NO_\x00REPLY":                             "",
		"sk-abcdefgh\x1b[0mijklmnopqrstuvwxyz0123": "sk-abc…0123",
	} {
		page := agent.SafePage(session.Line{
			Message: agent.Message{Role: session.MessageAssistant, Text: text},
		})
		require.Equal(t, want != "", len(page.Lines) == 1, text)
		for _, l := range page.Lines {
			require.Equal(t, want, l.Message.Text)
		}
	}
}
