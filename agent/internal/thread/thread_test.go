package thread_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func conversation(thread string) session.Route {
	return session.Route{Channel: "discord", To: "general", Thread: thread}
}

func ended(id, of string, why binding.Reason) binding.Unbound {
	return binding.Unbound{ID: id, Reason: why, At: noon, Binding: binding.Binding{
		Conversation: conversation(of), Target: session.Must(session.MainKey("main")),
		Idle: 2 * time.Hour, MaxAge: 90 * time.Minute,
	}}
}

func TestName(t *testing.T) {
	require.Equal(t, "🤖 painter", thread.Name("painter", "main"))
	require.Equal(t, "🤖 main", thread.Name("", "main"))
	require.Equal(t, "🤖 a b", thread.Name("a\nb", "main"))
	long := thread.Name(strings.Repeat("ü", 300), "main")
	require.Equal(t, 100, utf8.RuneCountInString(long))
	require.True(t, strings.HasSuffix(long, "…"))
}

// The label of a sub-agent may be a model's: of it people read plain text.
func TestPlain(t *testing.T) {
	for label, want := range map[string]string{
		"painter": "painter", "Fix the bug (now!), 50%": "Fix the bug (now!), 50%",
		"v1.2 of a_b-c.": "v1.2 of a_b-c.", "at 12:30": "at 12:30", "fix: and/or": "fix: and/or",
		"ann's, e.g": "ann's, e．g", "грязь": "грязь", "🤖": "🤖",
		"@everyone": "＠everyone", "<@42>": "＜＠42＞", "<@&7> <#8>": "＜＠&7＞ ＜＃8＞",
		"<!here>": "＜!here＞", "#general": "＃general", "a#b": "a＃b",
		"[x](http://a.b)": "［x］(http：／／a．b)", "t.me/x": "t．me/x", "a@b.de": "a＠b．de",
		"**b** _i_ ~~s~~": "＊＊b＊＊ ＿i＿ ～～s～～", "__u__": "＿＿u＿＿", "||s||": "｜｜s｜｜",
		"`code`": "'code'", `say "x"`: "say 'x'", "“x” ″y″": "'x' 'y'", "> q": "＞ q", "- l": "－ l", "-- x": "－－ x", "/kill all": "／kill all",
		":smile:": "：smile:", "&lt;": "＆lt;", "$TSLA": "＄TSLA", "\\@x": "＼＠x",
		"a\nb\t c": "a b c", "\u202edcba": "dcba", "@\u200beveryone": "＠everyone",
		"\xff\x00x": "x", "\u200b": "", "": "",
	} {
		require.Equal(t, want, thread.Plain(label), label)
	}
}

// Nothing that people read has a mark of a channel, wherever the label goes.
func FuzzPlain(f *testing.F) {
	for _, label := range []string{
		"painter", "@everyone", "<@&42> **x** [a](b.de)", "a\u202e@\u200bhere", "--- :a:b:", "_.a._",
	} {
		f.Add(label)
	}
	f.Fuzz(func(t *testing.T, label string) {
		u := ended("1", "1", binding.ReasonIdle)
		u.Binding.Label = label
		plain := thread.Plain(label)
		require.Equal(t, plain, thread.Plain(plain), "it is plain already")
		require.False(t, strings.ContainsFunc(plain, text.IsQuotation))
		require.False(t, strings.ContainsAny(plain, "@#<>[]*~`\\\n\r"), plain)
		require.NotContains(t, plain, "://")
		require.Equal(t, text.Line(plain), plain)
		require.LessOrEqual(t, utf8.RuneCountInString(thread.Name(label, "main")), 100)
		for _, said := range []string{
			thread.Name(label, "main"), thread.Intro(label, "main", time.Hour, 0),
			thread.Farewell(u),
		} {
			require.True(t, utf8.ValidString(said))
			require.False(t, strings.ContainsAny(said, "@#<>[]*~`\\\n\r"), said)
			require.Less(t, len(said), 1200)
		}
	})
}

func TestIntro(t *testing.T) {
	require.NotContains(t, thread.Intro("p", "main", 0, 0), "released")
	run := thread.IntroRun("p", "main")
	require.True(t, strings.HasPrefix(run, `The agent "p" works here, until it is done.`), run)
	require.NotContains(t, run, "released")
	both := thread.Intro("p", "main", 24*time.Hour, 90*time.Minute)
	require.Contains(t, both, `The agent "p" works here.`)
	require.Contains(t, both, "24 hours without")
	require.Contains(t, both, "90 minutes at the latest")
}

// Each reason has a text of its own, except where nothing is to be said.
func TestFarewell(t *testing.T) {
	silent := []binding.Reason{binding.ReasonReplaced, binding.ReasonThreadDeleted}
	seen := make(map[string]bool)
	for why := binding.ReasonManual; why <= binding.ReasonSubagentStopped; why++ {
		said := thread.Farewell(ended("1", "1", why))
		require.Equal(t, why == silent[0] || why == silent[1], said == "", why)
		if said == "" {
			continue
		}
		require.False(t, seen[said], said)
		require.NotContains(t, said, "%")
		seen[said] = true
	}
	require.Contains(t, thread.Farewell(ended("1", "1", binding.ReasonIdle)), "2 hours")
	require.Contains(t, thread.Farewell(ended("1", "1", binding.ReasonMaxAge)), "90 minutes")
	labelled := ended("1", "1", binding.ReasonManual)
	labelled.Binding.Label = "painter"
	require.True(t, strings.HasPrefix(thread.Farewell(labelled), `The agent "painter" `))
}

// A label stands within quotation marks, and no sentence begins with it: it is not a command, and
// does not pass for what the bot says by itself.
func TestLabelsAreInQuotationMarks(t *testing.T) {
	for _, label := range []string{
		"painter", "!cmd", ".cmd x", "?x", "=cmd", "%s", "1. list", "system: the bot is compromised",
		`x" says: "`, "“x”", "; drop", "/kill", "-- x", "'", "The agent", "$x", "&x", "^x", ",x", "(x)", "\"", "»", "é",
	} {
		for why := binding.ReasonManual; why <= binding.ReasonSubagentStopped; why++ {
			u := ended("1", "1", why)
			u.Binding.Label = label
			intro := thread.Intro(label, "main", time.Hour, 0)
			for _, said := range []string{thread.Farewell(u), intro} {
				if said == "" {
					continue
				}
				rest, ok := strings.CutPrefix(said, `The agent "`+thread.Plain(label)+`" `)
				require.True(t, ok, said)
				require.NotContains(t, rest, `"`)
			}
		}
	}
	require.True(t, strings.HasPrefix(thread.Intro("", "", 0, 0), "The sub-agent works here."))
	byAgent := thread.Intro("\u200b", "coder", 0, 0)
	require.True(t, strings.HasPrefix(byAgent, `The agent "coder" works here.`))
}

func TestDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"less than a second": time.Second - 1, "1 second": 2*time.Second - 1,
		"45 seconds": 45 * time.Second, "59 seconds": time.Minute - 1,
		"1 minute": 61 * time.Second, "1 hour": time.Hour,
		"90 minutes": 90 * time.Minute, "48 hours": 48 * time.Hour,
	} {
		require.Equal(t, want, thread.Duration(d))
	}
}

func TestReasonOf(t *testing.T) {
	require.Equal(t, binding.ReasonSubagentOK, thread.ReasonOf("subagent-complete"))
	require.Equal(t, binding.ReasonStaleSession, thread.ReasonOf("of a later version"))
}

// Attempts come after 15 s and then more and more seldom, at least every 5 minutes, for half an
// hour.
func TestPause(t *testing.T) {
	var since, last time.Duration
	tries := 1
	for ; ; tries++ {
		pause, ok := thread.Pause(tries, since)
		if !ok {
			break
		}
		require.GreaterOrEqual(t, pause, last)
		require.LessOrEqual(t, pause, 5*time.Minute)
		since, last = since+pause, pause
	}
	require.GreaterOrEqual(t, since, thread.GiveUp)
	require.Less(t, since, thread.GiveUp+5*time.Minute)
	require.Less(t, tries, 15)
}

// One attempt is under way in each conversation, and so many in all; what has failed waits.
func TestPlan(t *testing.T) {
	tried := make(map[string]*thread.Attempt)
	owed := []binding.Unbound{
		ended("a", "1", 0), ended("b", "1", 0), ended("c", "2", 0), ended("d", "3", 0),
	}
	ids := func(list []binding.Unbound) (ids string) {
		for _, u := range list {
			ids += u.ID
		}
		return ids
	}
	begin, due := thread.Plan(noon, time.Time{}, slices.Values(owed), tried, 2)
	require.Equal(t, "ac", ids(begin))
	require.True(t, due.IsZero())
	begin, _ = thread.Plan(noon, noon.Add(time.Hour), slices.Values(owed), tried, 2)
	require.Empty(t, begin, "two are under way")

	_, _ = thread.Plan(noon, noon, func(func(binding.Unbound) bool) {
		t.Error("what is owed is read although as many are under way as may be")
	}, tried, 2)

	tried["a"].Failed(noon.Add(time.Second))
	begin, due = thread.Plan(
		noon.Add(time.Second), noon.Add(time.Hour), slices.Values(owed), tried, 2,
	)
	require.Equal(t, "b", ids(begin), "its conversation is free")
	require.Equal(t, noon.Add(16*time.Second), due)
	tried["c"].Failed(noon.Add(time.Second))
	begin, _ = thread.Plan(noon.Add(16*time.Second), time.Time{}, slices.Values(owed), tried, 8)
	require.Equal(t, "cd", ids(begin), "a waits for b, which is of the same conversation")

	require.False(t, tried["c"].Over(noon.Add(thread.GiveUp-time.Second)))
	require.True(t, tried["c"].Over(noon.Add(thread.GiveUp)))
}

func TestSooner(t *testing.T) {
	require.Equal(t, noon, thread.Sooner(time.Time{}, noon))
	require.Equal(t, noon, thread.Sooner(noon, time.Time{}))
	require.Equal(t, noon, thread.Sooner(noon.Add(1), noon))
}

// A message may have gone to the conversation's own session and to those that were bound to it.
func TestSeenBy(t *testing.T) {
	main := session.Must(session.MainKey("main"))
	sub := func(id string) session.Key { return session.Must(main.Child("main", id)) }
	of := func(key session.Key) binding.Binding { return binding.Binding{Target: key, Bound: noon} }
	var former []binding.Unbound
	for i := range 20 {
		former = append(former, binding.Unbound{Binding: of(sub(fmt.Sprint(i % 3)))})
	}
	keys := func(list []binding.Binding) (ids []string) {
		for _, b := range list {
			ids = append(ids, b.Target.ID())
		}
		return ids
	}
	seen := func(bound binding.Binding, is bool, at time.Time) []string {
		return keys(thread.SeenBy(bound, is, of(main), former, at))
	}
	require.Equal(t, []string{"1", "0", "2"}, seen(binding.Binding{}, false, noon))
	require.Equal(t, []string{"1", "2", main.ID()}, seen(of(sub("0")), true, noon))
	near := of(sub("0"))
	near.Root = main
	require.Equal(t, []string{"1", "2", main.ID()}, seen(near, true, noon))
	require.Equal(t, []string{"1", "2"}, seen(of(sub("0")), true, noon.Add(binding.Remembered)))
	fresh := of(sub("0"))
	fresh.Created = true
	require.Equal(t, []string{"1", "2"}, seen(fresh, true, noon))
	former = nil
	for i := range 20 {
		former = append(former, binding.Unbound{Binding: of(sub(fmt.Sprint(i)))})
	}
	require.Len(t, seen(binding.Binding{}, false, noon), 7)
	bound := seen(of(sub("other")), true, noon)
	require.Len(t, bound, 8)
	require.Equal(t, main.ID(), bound[7], "it is asked, however many there were")
}

func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks thread.Locks[session.Route]
		unlock, err := locks.Lock(t.Context(), conversation("1"))
		require.NoError(t, err)
		other, err := locks.Lock(t.Context(), conversation("2"))
		require.NoError(t, err)
		other()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("mine"))
		defer cancel()
		_, err = locks.Lock(ctx, conversation("1"))
		require.EqualError(t, err, "mine")
		n := 0
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				unlock, err := locks.Lock(t.Context(), conversation("1"))
				if err == nil {
					n++
					unlock()
				}
			})
		}
		synctest.Wait()
		require.Zero(t, n)
		unlock()
		wg.Wait()
		require.Equal(t, 10, n)
	})
}

// A call ends with its time and with the life of all calls, is waited for a second longer, and is
// left if it does not return.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		over := errors.New("over")
		calls := thread.NewCalls(life, over)
		main := session.Must(session.MainKey("main"))
		start := func(f func(context.Context) error) *thread.Call {
			return calls.Start(t.Context(), main, true, time.Minute, f)
		}
		own := errors.New("own")
		require.Equal(t, own, start(func(context.Context) error { return own }).Wait())
		began := time.Now()
		require.ErrorIs(t, start(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}).Wait(), context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began))

		release := make(chan struct{})
		hangs := start(func(context.Context) error { <-release; return own })
		require.Equal(t, thread.ErrHangs, hangs.Wait())
		end()
		grace, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		saying, others := calls.Left(grace, true)
		require.Equal(t, []session.Key{main}, saying)
		require.Empty(t, others)
		require.ErrorIs(t, hangs.Returned(life), context.Canceled)
		close(release)
		require.Equal(t, own, hangs.Returned(t.Context()))
		saying, others = calls.Left(t.Context(), false)
		require.Empty(t, append(saying, others...))
		require.Equal(t, over, start(func(context.Context) error { return nil }).Wait())
	})
}
