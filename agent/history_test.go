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
			require.NoError(t, errorOf(main.Post(t.Context(), agent.Incoming{Text: "go"})))
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
		require.NoError(t, errorOf(h.Main().Post(h.Context(), agent.Incoming{Text: "hello"})))
		synctest.Wait()
		require.NotEmpty(t, historyOf(h, agent.HistoryQuery{}).Lines)
	})
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
			require.Equal(t, int32(1), failing.left.Load(), "it is read once")
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
	if underRace {
		t.Skip("its texts take minutes; the step large of .ci/run has it")
	}
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
