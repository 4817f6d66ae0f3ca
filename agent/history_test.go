package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// recordingConfig is a Config whose Runner records the next messages of a list in each turn.
func recordingConfig(turns ...[]agent.Message) agent.Config {
	return configWith(func(ctx context.Context, tn *agent.Turn) (res agent.Result, err error) {
		if len(turns) == 0 {
			return textResult("ok")
		}
		now := turns[0]
		turns = turns[1:]
		for _, m := range now {
			if err := tn.Record(ctx, m); err != nil {
				return res, err
			}
		}
		return res, nil
	})
}

// historyOf returns a page of the main session that posts "go" for each turn.
func historyOf(h *harness, q agent.HistoryQuery) agent.HistoryPage {
	h.T().Helper()
	page, err := h.Main().History(h.Context(), q)
	require.NoError(h.T(), err)
	return page
}

// textsOfPage returns what is said, line by line, with the role.
func textsOfPage(page agent.HistoryPage) []string {
	list := []string{}
	for _, l := range page.Lines {
		list = append(list, string(l.Message.Role)+": "+l.Message.Text)
	}
	return list
}

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
		cut := strings.Repeat("ä", 4000) + "\n…(truncated)…"
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

// Pages of any size lead back to the first line, without a gap and without a line twice, also where
// a page is full before it has as many lines as were asked for.
func TestHistoryPages(t *testing.T) {
	var said []agent.Message
	for i := range 120 {
		said = append(said, agent.Message{
			Role: session.MessageAssistant, Text: fmt.Sprint(i, " ", strings.Repeat("x", 3000)),
		})
		if i%7 == 0 {
			said = append(said, agent.Message{Role: session.MessageAssistant, Text: "NO_REPLY"})
		}
	}
	agenttest.Run(t, recordingConfig(said, nil), nil, func(h *harness) {
		h.Post("go")
		synctest.Wait()
		h.Post("and on")
		synctest.Wait()
		raw := historyOf(h, agent.HistoryQuery{Raw: true})
		require.Len(t, raw.Lines, len(said)+2)
		want := []string{"user: go"}
		for _, m := range said {
			if m.Text != "NO_REPLY" {
				want = append(want, "assistant: "+m.Text)
			}
		}
		want = append(want, "user: and on")
		for _, last := range []int{0, 1, 2, 5, 40, 5000} {
			q := agent.HistoryQuery{Last: last}
			var got []string
			for n := 0; ; n++ {
				page := historyOf(h, q)
				data, err := json.Marshal(page)
				require.NoError(t, err)
				require.LessOrEqual(t, len(data), 81_920)
				if last > 0 {
					require.LessOrEqual(t, len(page.Lines), last)
				}
				got = slices.Concat(textsOfPage(page), got)
				if q.Before = page.Earlier; page.Earlier == 0 {
					break
				}
				require.Less(t, n, 1000)
			}
			require.Equal(t, want, got, "pages of %d", last)
		}
		page := historyOf(h, agent.HistoryQuery{Last: 3, Raw: true})
		require.Len(t, page.Lines, 3)
		require.Equal(t, page.Lines[0].Pos, page.Earlier)
		_, err := h.Main().History(h.Context(), agent.HistoryQuery{Last: -1})
		var bad *agent.InputError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "HistoryQuery.Last", bad.Field)
	})
}

// A history has the committed conversation: not the turn under way, and not what an interrupted
// turn left in the transcript, before and after it is fenced.
func TestHistoryIsCommitted(t *testing.T) {
	turn := 0
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (res agent.Result, err error) {
		turn++
		text := fmt.Sprint("words of turn ", turn)
		m := agent.Message{Role: session.MessageAssistant, Text: text}
		if err := tn.Record(ctx, m); err != nil {
			return res, err
		}
		return textResult(text + ", the end")
	})
	inner := cfg.Runner
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		res, err := inner.Run(ctx, tn)
		if turn == 2 {
			<-ctx.Done() // it is interrupted
			return res, ctx.Err()
		}
		return res, err
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		one := []string{
			"user: one", "assistant: words of turn 1",
			"assistant: words of turn 1, the end",
		}
		h.Post("one")
		synctest.Wait()
		require.Equal(t, one, textsOfPage(historyOf(h, agent.HistoryQuery{})))
		h.Post("two")
		synctest.Wait()
		for _, raw := range []bool{false, true} {
			q := agent.HistoryQuery{Raw: raw}
			require.Equal(t, one, textsOfPage(historyOf(h, q)), "the turn is under way")
			q.Last = 1
			require.Equal(t, one[2:], textsOfPage(historyOf(h, q)))
		}
		h.Crash()
		synctest.Wait()
		after := append(one, "user: two", "assistant: words of turn 3",
			"assistant: words of turn 3, the end")
		for last := 1; last <= len(after); last++ {
			page := historyOf(h, agent.HistoryQuery{Last: last})
			require.Equal(t, after[len(after)-last:], textsOfPage(page), "behind the fence")
		}
	})
}

// What a session is told of the end of a sub-agent is a remark: people get the words of the
// assistant, and no code that could be used to forge an event.
func TestHistoryHasNoCompletions(t *testing.T) {
	s := script{
		"main":  {startStep("count"), say("On it."), say("It is 42.")},
		"count": {say("forty-two, as asked").After(time.Minute)},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("count")
		time.Sleep(time.Hour / 2)
		page := historyOf(h, agent.HistoryQuery{})
		data, err := json.Marshal(page)
		require.NoError(t, err)
		require.NotContains(t, string(data), "<<<")
		require.NotContains(t, string(data), "forty-two")
		texts := textsOfPage(page)
		require.Contains(t, texts, "assistant: It is 42.")
		require.Contains(t, texts,
			"user: [Offshoot] What a sub-agent came to was told to the session.")
		child, err := h.Session(h.Child("count").Key).History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.Equal(t, "forty-two, as asked", child.Lines[1].Message.Text)
	})
}

// A message that is too long for a line, and so a file, is read whole: raw, and where it is cut for
// readers. Where the file is gone there is the beginning, with a note.
func TestHistoryOfLongMessages(t *testing.T) {
	text := strings.Repeat("ä", 2035) + " " + leaked + " " + strings.Repeat("x", 600_000)
	store, notes := newNotebook()
	store.Files = session.NewMemory().Files
	cfg := recordingConfig([]agent.Message{{Role: session.MessageAssistant, Text: text}})
	cfg.Store = store
	synctest.Test(t, func(t *testing.T) {
		runFor(t, cfg, func(rt *agent.Runtime) {
			main := rt.Session(topKey)
			read := func(raw bool) agent.HistoryLine {
				page, err := main.History(t.Context(), agent.HistoryQuery{Raw: raw})
				require.NoError(t, err)
				require.Len(t, page.Lines, 2)
				return page.Lines[1]
			}
			require.NoError(t, main.Post(t.Context(), agent.Incoming{Text: "go"}))
			synctest.Wait()
			require.Equal(t, text, read(true).Message.Text)
			require.Zero(t, read(true).Message.Whole)
			safe := read(false)
			require.True(t, safe.Cut)
			require.True(t, safe.Redacted)
			require.NotContains(t, safe.Message.Text, "sk-abcdefg")
			require.NoError(t, store.Files.Remove(t.Context(), notes.refs[topKey]))
			for _, raw := range []bool{false, true} {
				lost := read(raw).Message.Text
				require.Contains(t, lost, "The rest of this message is lost.")
				require.Less(t, len(lost), 5000)
			}
		})
	})
}

// A session that is not on record has no history. One that the caller runs has what was recorded.
func TestHistoryOfOtherSessions(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, key := range []session.Key{topKey, childKeyOf(t, topKey)} {
			_, err := h.Session(key).History(h.Context(), agent.HistoryQuery{})
			require.ErrorIs(t, err, agent.ErrNotFound)
			require.NotErrorIs(t, err, agent.ErrArchived)
		}
		var bad *agent.InputError
		_, err := h.Session(session.Key{}).History(h.Context(), agent.HistoryQuery{})
		require.ErrorAs(t, err, &bad)
		_, err = h.Main().Spawn(h.Context(), agent.Task{Text: "x"})
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, historyOf(h, agent.HistoryQuery{}).Lines)
		require.NoError(t, h.Main().Post(h.Context(), agent.Incoming{Text: "hello"}))
		synctest.Wait()
		require.NotEmpty(t, historyOf(h, agent.HistoryQuery{}).Lines)
	})
}

// endedRun returns a sub-agent that has ended and was archived, and the words of its history.
func endedRun(t *testing.T, h *harness) (c *agent.Child[string], words []string) {
	t.Helper()
	c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "work", Label: "ended"})
	require.NoError(t, err)
	_, err = c.Wait(h.Context())
	require.NoError(t, err)
	page, err := c.Session().History(h.Context(), agent.HistoryQuery{})
	require.NoError(t, err)
	require.False(t, page.Archived)
	time.Sleep(3 * time.Hour)
	_, err = c.Info(h.Context())
	require.ErrorIs(t, err, agent.ErrNotFound)
	return c, textsOfPage(page)
}

// R19: the history of an archived session is read, by its key, and after a restart. What writes to
// it says that it is archived, and stays ErrNotFound for callers of before.
func TestHistoryOfAnArchivedSession(t *testing.T) {
	answer := func(context.Context, *agent.Turn) (agent.Result, error) { return textResult("done") }
	agenttest.Run(t, configWith(answer), nil, func(h *harness) {
		c, words := endedRun(t, h)
		require.Len(t, words, 2)
		require.ErrorIs(t, c.Steer(h.Context(), "x"), agent.ErrArchived)
		checkArchived(t, h, c.Key(), words)
		h.Crash()
		synctest.Wait()
		checkArchived(t, h, c.Key(), words)
	})
}

// checkArchived checks what an archived session answers, and one that never was.
func checkArchived(t *testing.T, h *harness, key session.Key, words []string) {
	t.Helper()
	ctx, s := h.Context(), h.Session(key)
	for _, raw := range []bool{false, true} {
		page, err := s.History(ctx, agent.HistoryQuery{Raw: raw})
		require.NoError(t, err)
		require.True(t, page.Archived)
		require.Equal(t, words, textsOfPage(page))
		page, err = s.History(ctx, agent.HistoryQuery{Raw: raw, Last: 1})
		require.NoError(t, err)
		require.Equal(t, words[1:], textsOfPage(page))
		page, err = s.History(ctx, agent.HistoryQuery{Raw: raw, Before: page.Earlier})
		require.NoError(t, err)
		require.Equal(t, words[:1], textsOfPage(page))
	}
	for name, write := range map[string]func(s *agent.Session) error{
		"Post": func(s *agent.Session) error { return s.Post(ctx, agent.Incoming{Text: "x"}) },
		"Spawn": func(s *agent.Session) error {
			_, err := s.Spawn(ctx, agent.Task{Text: "x"})
			return err
		},
		"Steer": func(s *agent.Session) error { return h.Main().Steer(ctx, s.Key(), "x") },
	} {
		err := write(s)
		require.ErrorIs(t, err, agent.ErrArchived, name)
		require.ErrorIs(t, err, agent.ErrNotFound, name)
		err = write(h.Session(childKeyOf(t, topKey)))
		require.ErrorIs(t, err, agent.ErrNotFound, name)
		require.NotErrorIs(t, err, agent.ErrArchived, name)
	}
}

// A store that fails, panics or ends its goroutine is an error of History, which names the session.
func TestHistoryOfABadStore(t *testing.T) {
	for name, bad := range map[string]func() error{
		"error": func() error { return errBad },
		"panic": func() error { panic(errBad) },
		"exit":  func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			store := session.NewMemory()
			cfg := configAnswering(asText)
			failing := false
			store.Transcripts = badTranscripts{
				store.Transcripts, func() error {
					if failing {
						return bad()
					}
					return nil
				}, func() error { return nil },
			}
			cfg.Store = store
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("x")
				synctest.Wait()
				failing = true
				_, err := h.Main().History(h.Context(), agent.HistoryQuery{})
				failing = false
				require.ErrorContains(t, err, `agent: reading the transcript of "agent:main:main": `)
				if name == "error" {
					require.ErrorIs(t, err, errBad)
				}
			})
		})
	}
}

// The history of a run that was interrupted is the same before it is archived and after: what the
// interrupted turn left is in neither, whatever kept the run from being archived at once.
func TestHistoryOfAnInterruptedRun(t *testing.T) {
	for _, fault := range []string{"none", "archive", "read", "append", "crash", "ack", "corrupt"} {
		t.Run(fault, func(t *testing.T) { checkInterrupted(t, fault) })
	}
}

// An archivingStore fails a call of one kind some times, from when a run is to be archived.
type archivingStore struct {
	session.Transcripts
	fault         string
	archiving     atomic.Bool
	left, appends atomic.Int32
}

func (s *archivingStore) fail(call string) error {
	if !s.archiving.Load() || s.fault != call || s.left.Add(-1) < 0 {
		return nil
	}
	if s.fault == "corrupt" {
		return session.ErrCorrupt
	}
	return errBad
}

func (s *archivingStore) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (string, error) {
	if err := s.fail("archive"); err != nil {
		return "", err
	}
	name, err := s.Transcripts.Archive(ctx, ref, at)
	return name, cmp.Or(err, s.fail("ack"))
}

// wrap returns the store as Transcripts.
func (s *archivingStore) wrap() session.Transcripts {
	read := func() error { return cmp.Or(s.fail("read"), s.fail("corrupt")) }
	return badTranscripts{s, read, func() error {
		if s.archiving.Load() {
			s.appends.Add(1)
		}
		return s.fail("append")
	}}
}

// checkInterrupted archives a run that was stopped in its turn, while a call of the store fails.
func checkInterrupted(t *testing.T, fault string) {
	store := session.NewMemory()
	failing := &archivingStore{Transcripts: store.Transcripts, fault: fault}
	failing.left.Store(2)
	if fault == "crash" { // behind the fence
		failing.fault = "archive"
		failing.left.Store(1)
	}
	store.Transcripts = failing.wrap()
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (res agent.Result, err error) {
		m := agent.Message{Role: session.MessageAssistant, Text: "half a thought"}
		if err := tn.Record(ctx, m); err != nil {
			return res, err
		}
		<-ctx.Done()
		return res, ctx.Err()
	})
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "work"})
		require.NoError(t, err)
		synctest.Wait()
		h.Crash()
		require.NoError(t, h.Main().Stop(h.Context()))
		synctest.Wait()
		read := func() agent.HistoryPage {
			q := agent.HistoryQuery{Raw: true}
			page, err := h.Session(c.Key()).History(h.Context(), q)
			require.NoError(t, err)
			return page
		}
		before := read()
		require.False(t, before.Archived)
		failing.archiving.Store(true)
		time.Sleep(time.Hour + time.Second)
		if fault == "crash" {
			require.LessOrEqual(t, failing.left.Load(), int32(0))
			h.Crash()
		}
		time.Sleep(time.Hour)
		if fault == "corrupt" { // then it is archived as it is
			require.Equal(t, int32(1), failing.left.Load())
			require.Zero(t, failing.appends.Load())
			require.Empty(t, h.Runs())
			return
		}
		after := read()
		require.True(t, after.Archived)
		require.Equal(t, before.Lines, after.Lines)
		require.Empty(t, after.Lines)
		if fault == "append" {
			require.Equal(t, int32(3), failing.appends.Load())
			return
		}
		require.Equal(t, int32(1), failing.appends.Load(), "there is one fence")
	})
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
	shown, _ = argsOf(t, `["--password","x",["--key",[1,{}],"y"],{"key":7}]`)
	require.Equal(t, `["--password","***",["--key","***","y"],{"key":"***"}]`, shown)
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
	const bad = "a\x1b[31mb\x1b]0;t\ac\u009b1md\x00e\x7ff\u0085g\u202eh\u2066i\u200ej\r\x1bMk"
	args, err := json.Marshal(map[string]any{bad: []any{bad, `{"x":"` + bad + `"}`}})
	require.NoError(t, err)
	said := agent.Message{
		Role: session.MessageUser, Text: bad + "\n\tx", ID: bad, ToolCallID: bad, Model: bad,
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
			Role: m.Role, Text: good + "\n\tx", ID: good, ToolCallID: good, Model: good,
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

// An openedFiles counts the files that are opened.
type openedFiles struct {
	session.Files
	opened *int
}

func (f openedFiles) Open(
	ctx context.Context, ref session.Ref, file string,
) (io.ReadCloser, error) {
	*f.opened++
	return f.Files.Open(ctx, ref, file)
}

// A page is made of a bounded amount of messages, whatever is shown of them. Pages that show
// nothing lead on, back to the first line, without a gap.
func TestHistoryReadsABoundedAmount(t *testing.T) {
	thought := "<think>" + strings.Repeat("x", 1<<20) + "</think>"
	said := make([]agent.Message, 14)
	want := []string{"user: go"}
	for i := range said {
		said[i] = agent.Message{Role: session.MessageAssistant, Text: thought}
		if i == 6 {
			said[i].Text = "Four." + thought
			want = append(want, "assistant: Four.")
		}
	}
	said[3].Text += strings.Repeat("<think>y</think>", 300_000) // more than a page may read
	opened := 0
	cfg := recordingConfig(said)
	cfg.Limits.Reply = 8 << 20
	cfg.Store = session.NewMemory()
	cfg.Store.Files = openedFiles{cfg.Store.Files, &opened}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		synctest.Wait()
		var got []string
		pages, empty := 0, 0
		for q := (agent.HistoryQuery{}); ; pages++ {
			opened = 0
			page := historyOf(h, q)
			require.LessOrEqual(t, opened, 3)
			got = slices.Concat(textsOfPage(page), got)
			if len(page.Lines) == 0 {
				empty++
			}
			if page.Earlier == 0 {
				break
			}
			require.True(t, q.Before == 0 || page.Earlier < q.Before)
			q.Before = page.Earlier
		}
		require.Equal(t, want, got)
		require.Equal(t, 5, pages, "before the last one")
		require.Positive(t, empty)
		require.Len(t, historyOf(h, agent.HistoryQuery{Raw: true}).Lines, 1+len(said))
	})
}
