package agenttest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// recorder is a test that fails without the one around it failing.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) FailNow() { r.Fatalf("FailNow") }

// failures plays and returns what failed.
func failures(t *testing.T, cfg agent.Config, s Script, p *crashPoint, f func(h *Harness)) string {
	t.Helper()
	r := &recorder{}
	synctest.Test(t, func(t *testing.T) {
		r.TB = t
		done := make(chan struct{})
		go func() {
			defer close(done)
			runInBubble(r, cfg, s, p, f)
		}()
		<-done
		// so that what is left behind on purpose ends before the bubble does
		time.Sleep(72 * time.Hour)
	})
	return strings.Join(r.failed, "\n")
}

// noCheck is a journal that does not compare before it appends.
type noCheck struct{ session.Journal }

func (j noCheck) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	seq, err := j.Journal.Append(ctx, root, after, b)
	for errors.Is(err, session.ErrConflict) {
		after++
		seq, err = j.Journal.Append(ctx, root, after, b)
	}
	return seq, err
}

func TestBrokenIsNoticed(t *testing.T) {
	spawnOne := Script{Main: {
		Call("sessions_spawn", `{"task":"work","label":"one"}`),
		Say("On it."), Echo(),
	}, "one": {Say("done").After(time.Minute)}}
	for _, c := range []struct {
		name string
		cfg  agent.Config
		s    Script
		p    *crashPoint
		f    func(h *Harness)
		want string
	}{
		{
			name: "no script for a label", s: Script{Main: spawnOne[Main], "two": nil},
			f:    func(h *Harness) { h.Post("go"); time.Sleep(time.Hour) },
			want: `the script has nothing for "one", only for ["main" "two"]`,
		},
		{
			name: "more calls than steps", s: Script{Main: {Say("a")}},
			f:    func(h *Harness) { h.Post("1"); synctest.Wait(); h.Post("2"); synctest.Wait() },
			want: `the script has 1 steps for "main", and this is model call 2; new in agent:main:main: ["2"]`,
		},
		{
			name: "a script and a Runner", s: spawnOne,
			cfg: agent.Config{Runner: agent.RunnerFunc(func(
				context.Context, *agent.Turn,
			) (agent.Result, error) {
				return agent.Result{}, nil
			})},
			f:    func(h *Harness) {},
			want: "there is a script and a Runner of type agent.RunnerFunc",
		},
		{
			name: "a bad Config", s: spawnOne, cfg: agent.Config{Grace: -1}, f: func(h *Harness) {},
			want: "Grace",
		},
		{
			name: "another reply", s: Script{Main: {Echo()}},
			f:    func(h *Harness) { h.Post("hello"); h.Replied("bye") },
			want: "replied\n     [\"hello\"]\nwant [\"bye\"]",
		},
		{
			name: "another delivery", f: func(h *Harness) { h.Delivered("42") },
			want: "delivered\n     []\nwant [\"42\"]",
		},
		{
			name: "no such child", s: Script{Main: {Echo()}},
			f:    func(h *Harness) { h.Post("hello"); h.Child("count") },
			want: `no sub-agent has the label "count"`,
		},
		{
			name: "a message that is refused", s: Script{Main: {Echo()}},
			f: func(h *Harness) { h.Post("") }, want: "it is empty",
		},
		{
			name: "a journal that does not compare", s: spawnOne,
			cfg: agent.Config{Store: &session.Store{
				Journal:     noCheck{session.NewMemory().Journal},
				Transcripts: session.NewMemory().Transcripts,
			}},
			f: func(h *Harness) {
				h.Post("go")
				time.Sleep(time.Second)
				h.Crash()
				time.Sleep(time.Hour)
			},
			want: "a former owner of agent:main:main could append",
		},
		{
			name: "a goroutine that is left",
			cfg: agent.Config{Runner: agent.RunnerFunc(func(
				context.Context, *agent.Turn,
			) (agent.Result, error) {
				go time.Sleep(48 * time.Hour)
				return agent.Result{Text: "hi"}, nil
			})},
			f:    func(h *Harness) { h.Post("go"); synctest.Wait() },
			want: "goroutines are left:\ngoroutine",
		},
		{
			name: "a Runner that does not return",
			cfg: agent.Config{Runner: agent.RunnerFunc(func(
				context.Context, *agent.Turn,
			) (agent.Result, error) {
				time.Sleep(48 * time.Hour)
				return agent.Result{Text: "hi"}, nil
			})},
			f:    func(h *Harness) { h.Post("go"); synctest.Wait() },
			want: "have not returned: agent:main:main",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Contains(t, failures(t, c.cfg, c.s, c.p, c.f), c.want)
		})
	}
}

// What cannot be provoked from outside is told to the checks directly.
func TestChecksOfWhatArrives(t *testing.T) {
	r := &recorder{TB: t}
	h := &Harness{t: r}
	h.noteReply(agent.Reply{Key: "1", Attempt: 1, Text: "a"})
	h.noteReply(agent.Reply{Key: "1", Attempt: 2, Text: "a"})
	h.noteReply(agent.Reply{Key: "1", Attempt: 1, MayRepeat: true, Text: "a"})
	require.Empty(t, r.failed)
	require.Len(t, h.replies, 1)
	for want, reply := range map[string]agent.Reply{
		`is "b" to`:                  {Key: "1", Attempt: 2, Text: "b"},
		"does not say that it may":   {Key: "1", Attempt: 1, Text: "a"},
		"holds what no person may s": {Key: "2", Attempt: 1, Text: "ok " + announce.NoReply},
	} {
		r.failed = nil
		h.noteReply(reply)
		require.Len(t, r.failed, 1)
		require.Contains(t, r.failed[0], want)
	}
	r.failed = nil
	delivery := func(key, run, text string, attempt int) agent.Delivery {
		return agent.Delivery{
			Key: key, Attempt: attempt, Run: agent.RunInfo{ID: spawn.RunID(run)},
			Event: announce.Event{Result: text},
		}
	}
	h.noteDelivery(delivery("1", "a", "x", 1))
	h.noteDelivery(delivery("1", "a", "x", 2))
	require.Empty(t, r.failed)
	for want, d := range map[string]agent.Delivery{
		"is another one than before": delivery("1", "a", "y", 2),
		"was delivered as 1 and as":  delivery("2", "a", "x", 1),
		"does not say that it may":   delivery("1", "a", "x", 1),
	} {
		r.failed = nil
		h.noteDelivery(d)
		require.NotEmpty(t, r.failed)
		require.Contains(t, r.failed[0], want)
	}
}

func TestChecksOfTheJournal(t *testing.T) {
	root := session.Must(session.MainKey("main"))
	child := session.Must(root.Child("main", "6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"))
	at := func(seq session.Seq, f fact) fact { f.root, f.seq = root, seq; return f }
	admitted := fact{
		Kind: "admitted", Run: child,
		Spec: &spec{ID: "id", SessionID: "s", Key: child, Parent: root},
	}
	rootRef, childRef := session.Ref{Key: root, SessionID: "r"},
		session.Ref{Key: child, SessionID: "s"}
	told := session.Line{
		Pos:     5,
		Message: session.Message{Role: session.MessageUser, Internal: true, ID: "id"},
	}
	good := []fact{
		at(1, fact{Kind: "opened", ID: "r"}), at(2, admitted),
		at(3, fact{Kind: "run_ended", Run: child, Flags: flagTell}),
		at(4, fact{Kind: "turn_ended", Run: root, Num: 5, Flags: flagReply}),
	}
	for _, c := range []struct {
		name    string
		facts   []fact
		lines   map[session.Ref][]session.Line
		replies int
		want    string
	}{
		{"good", good, map[session.Ref][]session.Line{rootRef: {told}}, 1, ""},
		{"lost", good, nil, 1, "was lost"},
		{"not committed", good, map[session.Ref][]session.Line{rootRef: {{
			Pos:     6,
			Message: told.Message,
		}}}, 1, "was lost"},
		{
			"twice", good,
			map[session.Ref][]session.Line{rootRef: {told, told}},
			1,
			"was read 2 times",
		},
		{
			"by another", append(good[:4:4], at(5, fact{Kind: "turn_ended", Run: child, Num: 9})),
			map[session.Ref][]session.Line{childRef: {told}},
			1, "was read by",
		},
		{"no end", good[:2:2], nil, 0, "has ended 0 times"},
		{
			"two ends", append(good[:4:4], good[2]),
			map[session.Ref][]session.Line{rootRef: {told}},
			1, "has ended 2 times",
		},
		{
			"a reply that is lost", good,
			map[session.Ref][]session.Line{rootRef: {told}},
			0,
			"1 turns replied, and 0 replies arrived",
		},
		{"stopped", append(good[:4:4],
			at(6, fact{Kind: "stop_requested", Run: root, Cause: causeStopped})), nil, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{TB: t}
			h := &Harness{
				t: r, facts: c.facts, lines: c.lines,
				replies: make([]agent.Reply, c.replies),
			}
			h.checkCompletions()
			if c.want == "" {
				require.Empty(t, r.failed)
				return
			}
			require.NotEmpty(t, r.failed)
			require.Contains(t, strings.Join(r.failed, "\n"), c.want)
		})
	}
}

func TestChecksOfTheAuditor(t *testing.T) {
	r := &recorder{TB: t}
	opened := func(seq session.Seq, epoch int) session.Entry {
		return session.Entry{
			Seq: seq,
			Payload: session.Raw(fmt.Sprintf(`{"v":1,"kind":"opened","at":%d,"num":%d,"id":"s"}`,
				seq, epoch)),
		}
	}
	root := session.Must(session.MainKey("main"))
	entries := map[session.Key][]session.Entry{root: {opened(2, 2), opened(1, 1)}}
	h := &Harness{t: r, entries: entries}
	h.checkJournals()
	require.Empty(t, r.failed)
	h.entries[root] = append(h.entries[root], opened(3, 2))
	h.checkJournals()
	require.Len(t, r.failed, 1)
	require.Contains(t, r.failed[0], "the journal of agent:main:main")
}

func TestChecksOfTurns(t *testing.T) {
	r := &recorder{TB: t}
	proc := &process{}
	h := &Harness{t: r, turnsUnderWay: map[turnID]int{}, ended: map[session.Key]bool{}}
	turn := &agent.Turn{Session: session.Lineage{Key: session.Must(session.MainKey("main"))}}
	require.NoError(t, h.noteTurnBegin(proc, turn))
	h.noteTurnEnd(proc, turn)
	require.NoError(t, h.noteTurnBegin(proc, turn))
	require.Empty(t, r.failed)
	require.NoError(t, h.noteTurnBegin(proc, turn))
	require.Contains(t, r.failed[0], "has 2 turns at once")
	h.noteTurnEnd(proc, turn)
	h.noteTurnEnd(proc, turn)
	h.ended[turn.Session.Key] = true
	require.NoError(t, h.noteTurnBegin(proc, turn))
	require.Contains(t, r.failed[1], "although its run has ended")
	proc.dead.Store(true)
	require.ErrorIs(t, h.noteTurnBegin(proc, turn), errProcessKilled)
}
