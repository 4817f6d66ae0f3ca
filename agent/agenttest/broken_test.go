package agenttest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
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
	r, outer := &recorder{}, t
	synctest.Test(t, func(t *testing.T) {
		r.TB = t
		done := make(chan struct{})
		go func() {
			defer close(done)
			runInBubble(r, outer, cfg, s, setup{crash: p}, f)
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
	base := t.TempDir()
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
			name: "a file that is lost",
			cfg: agent.Config{
				Store: storeWith(func(f session.Files) session.Files { return lostFiles{f} }),
				Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
					return agent.Result{Text: strings.Repeat("long ", 20_000)}, nil
				}),
			},
			f:    func(h *Harness) { h.Post("go") },
			want: "file c3cde55157f54fd1",
		},
		{
			name: "attachments that are left",
			cfg: agent.Config{
				WorkDir: func(string) string { return base },
				Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
					return agent.Result{Text: "done"}, nil
				}),
			},
			f: func(h *Harness) {
				child, err := h.Main().Spawn(h.Context(), agent.Task{
					Text:        "work",
					Attachments: []agent.Attachment{{Name: "a", Reader: strings.NewReader("x")}},
				})
				if err != nil {
					h.t.Fatalf("%v", err)
				}
				time.Sleep(3 * time.Hour)
				dir := filepath.Join(base, ".offshoot", "attachments", child.Key().ID())
				if err := os.MkdirAll(dir, 0o700); err != nil {
					h.t.Errorf("%v", err)
				}
			},
			want: "which is archived, are left in",
		},
		{
			name: "files of no session",
			cfg:  agent.Config{Store: session.NewMemory()},
			f: func(h *Harness) {
				ref := session.Ref{Key: h.Main().Key(), SessionID: "another"}
				_, err := h.current().store(h).Files.Put(
					h.Context(), ref, strings.NewReader("x"), session.File{},
				)
				if err != nil {
					h.t.Error(err)
				}
			},
			want: "there are files of agent:main:main, session another, which does not exist",
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
			want: "has not returned: agent:main:main",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Contains(t, failures(t, c.cfg, c.s, c.p, c.f), c.want)
		})
	}
}

// A10: what goes wrong after f has returned fails the test as it does before, in Run and at every
// crash. What does not fail it before does not fail it after.
func TestWhatGoesWrongAfterTheFunctionIsNoticed(t *testing.T) {
	at := func(d time.Duration, do func()) func() { return func() { time.Sleep(d); do() } }
	spawn := Call("sessions_spawn", `{"task":"work","label":"one"}`)
	boom := agent.Tool{
		Name: "boom",
		Call: func(context.Context, agent.ToolCall) (agent.ToolResult, error) { panic("boom") },
	}
	leaking := agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
		go time.Sleep(48 * time.Hour)
		return agent.Result{Text: "hi"}, nil
	})
	for _, c := range []struct {
		name string
		cfg  agent.Config
		s    Script
		f    func(h *Harness)
		want string
	}{
		{
			name: "an unknown key", s: Script{"Main": {Say("x")}},
			want: `the script has nothing for "main", only for ["Main"]`,
		},
		{
			name: "an unknown key, later", s: Script{Main: {spawn, Say("x").After(time.Minute)}},
			want: `the script has nothing for "one", only for ["main"]`,
		},
		{
			name: "a missing step", s: Script{Main: {Call("nothing", `{}`)}},
			want: `the script has 1 steps for "main", and this is model call 2`,
		},
		{
			name: "a missing step for the end of a sub-agent",
			s: Script{
				Main:  {spawn, Say("On it.")},
				"one": {Say("done").After(time.Minute)},
			},
			want: `the script has 2 steps for "main", and this is model call 3`,
		},
		{
			name: "a missing step after half an hour",
			s:    Script{Main: {Call("nothing", `{}`).After(30 * time.Minute)}},
			want: `the script has 1 steps for "main", and this is model call 2`,
		},
		{
			name: "a missing script of a sub-agent", s: Script{Main: {spawn, Say("x"), Echo()}},
			want: `the script has nothing for "one", only for ["main"]`,
		},
		{
			name: "a missing script of a sub-agent of a sub-agent",
			s: Script{
				Main:  {spawn, Say("x"), Echo()},
				"one": {Call("sessions_spawn", `{"task":"work","label":"two"}`), Echo()},
			},
			cfg: agent.Config{Rules: policy.Rules{
				Subagents: policy.Subagents{MaxSpawnDepth: 2},
			}},
			want: `the script has nothing for "two", only for ["main" "one"]`,
		},
		{
			name: "an expectation that is not met", s: Script{Main: {Echo()}},
			f:    func(h *Harness) { go at(0, func() { h.Replied("bye") })() },
			want: "replied\n     [\"q\"]\nwant [\"bye\"]",
		},
		{
			name: "an expectation that is not met, later",
			s:    Script{Main: {Echo().After(time.Minute)}},
			f:    func(h *Harness) { go at(time.Minute, func() { h.Replied("bye") })() },
			want: "replied\n     [\"q\"]\nwant [\"bye\"]",
		},
		{
			name: "a tool that panics, and no step after it",
			cfg:  agent.Config{Tools: []agent.Tool{boom}},
			s:    Script{Main: {Call("boom", `{}`).After(time.Minute)}},
			want: `the script has 1 steps for "main", and this is model call 2`,
		},
		{
			name: "a tool that panics, of which the model is told",
			cfg:  agent.Config{Tools: []agent.Tool{boom}},
			s:    Script{Main: {Call("boom", `{}`).After(time.Minute), Say("Sorry.")}},
		},
		{
			name: "a model that fails as the script says",
			s:    Script{Main: {Fail(errors.New("boom")).After(time.Minute)}},
		},
		{name: "a goroutine that is left", cfg: agent.Config{Runner: leaking}, want: "goroutines are left"},
	} {
		check := func(t *testing.T, p *crashPoint, after func(h *Harness)) {
			t.Helper()
			failed := failures(t, c.cfg, c.s, p, func(h *Harness) {
				h.Post("q")
				if c.f != nil {
					c.f(h)
				}
				after(h)
			})
			if c.want == "" {
				require.Empty(t, failed)
				return
			}
			require.Contains(t, failed, c.want)
		}
		returns := func(*Harness) {}
		t.Run(c.name, func(t *testing.T) {
			check(t, nil, func(h *Harness) { h.Pass(59 * time.Minute) }) // before f returns
			check(t, nil, returns)
			for n := 1; n <= 3; n++ {
				check(t, &crashPoint{at: n}, returns)
				check(t, &crashPoint{at: n, after: true}, returns)
			}
		})
	}
}

// What cannot be provoked from outside is told to the checks directly.
func TestChecksOfWhatArrives(t *testing.T) {
	r := &recorder{TB: t}
	h := &Harness{t: r}
	reply := func(key, text string, attempt int, mayRepeat bool) agent.Delivery {
		return agent.Delivery{
			Key: key, Attempt: attempt, MayRepeat: mayRepeat, Reply: &agent.Reply{Text: text},
		}
	}
	h.noteReply(reply("1", "a", 1, false))
	h.noteReply(reply("1", "a", 2, false))
	h.noteReply(reply("1", "a", 1, true))
	require.Empty(t, r.failed)
	require.Len(t, h.replies, 1)
	for want, d := range map[string]agent.Delivery{
		`is "b" to`:                  reply("1", "b", 2, false),
		"does not say that it may":   reply("1", "a", 1, false),
		"holds what no person may s": reply("2", "ok "+announce.NoReply, 0, false),
	} {
		r.failed = nil
		h.noteReply(d)
		require.Len(t, r.failed, 1)
		require.Contains(t, r.failed[0], want)
	}
	r.failed = nil
	delivery := func(key, run, text string, attempt int) agent.Delivery {
		return agent.Delivery{Key: key, Attempt: attempt, Completion: &agent.Completion{
			Run: agent.RunInfo{ID: spawn.RunID(run), Result: agent.Result{Text: text}},
		}}
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
	at := func(seq session.Seq, f spawntest.Fact) fact { f.Seq = seq; return fact{root, f} }
	admitted := spawntest.Fact{Kind: "admitted", Run: child, ID: "id", SessionID: "s", Parent: root}
	rootRef := session.Ref{Key: root, SessionID: "r"}
	childRef := session.Ref{Key: child, SessionID: "s"}
	told := session.Line{
		Pos:     5,
		Message: session.Message{Role: session.MessageUser, Internal: true, ID: "id"},
	}
	late := session.Line{Pos: 6, Message: told.Message}
	good := []fact{
		at(1, spawntest.Fact{Kind: "opened", SessionID: "r"}), at(2, admitted),
		at(3, spawntest.Fact{Kind: "run_ended", Run: child, Told: true}),
		at(4, spawntest.Fact{Kind: "turn_ended", Run: root, Pos: 5, Replied: true}),
	}
	with := func(f ...fact) []fact { return append(good[:4:4], f...) }
	childCommits := at(5, spawntest.Fact{Kind: "turn_ended", Run: child, Pos: 9})
	rootReset := at(5, spawntest.Fact{Kind: "reset", Run: root, SessionID: "n", Former: "r"})
	newRef := session.Ref{Key: root, SessionID: "n"}
	readLater := at(6, spawntest.Fact{Kind: "turn_ended", Run: root, Pos: 5, Replied: true})
	rootStopped := at(6, spawntest.Fact{Kind: "stop_requested", Run: root, Stopped: true})
	lines := func(ref session.Ref, l ...session.Line) map[session.Ref][]session.Line {
		return map[session.Ref][]session.Line{ref: l}
	}
	for _, c := range []struct {
		name    string
		facts   []fact
		lines   map[session.Ref][]session.Line
		replies int
		want    string
	}{
		{"good", good, lines(rootRef, told), 1, ""},
		{"lost", good, nil, 1, "was lost"},
		{"not committed", good, lines(rootRef, late), 1, "was lost"},
		{"twice", good, lines(rootRef, told, told), 1, "was read 2 times"},
		{"by another", with(childCommits), lines(childRef, told), 1, "was read by"},
		{"no end", good[:2:2], nil, 0, "has ended 0 times"},
		{"two ends", with(good[2]), lines(rootRef, told), 1, "has ended 2 times"},
		{
			"a reply that is lost", good, lines(rootRef, told), 0,
			"replies of turns: 1, arrived: 0",
		},
		{"stopped", with(rootStopped), nil, 1, ""},
		{"read before a reset", with(rootReset), lines(rootRef, told), 1, ""},
		{"read after a reset", append(good[:3:3], rootReset, readLater), lines(newRef, told), 1, ""},
		{"lost by a reset", append(good[:3:3], rootReset, readLater), lines(rootRef, told), 1, "was lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{TB: t}
			h := &Harness{
				t: r, facts: c.facts, lines: c.lines,
				replies: make([]agent.Delivery, c.replies),
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

// A conversation before a reset must be archived with all of its lines, and gets no more.
func TestChecksOfFormerConversations(t *testing.T) {
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "r"}
	said := session.Message{Role: session.MessageUser, Text: "hello", Time: time.Now()}
	for _, c := range []struct {
		archived bool
		lines    int // that were noted, of one that there is
		want     string
	}{
		{true, 1, ""}, {false, 1, "is not archived"}, {true, 2, "had 2 lines and has 1"},
	} {
		store := session.NewMemory()
		_, err := store.Transcripts.Append(t.Context(), ref, 0, said)
		require.NoError(t, err)
		if c.archived {
			_, err := store.Transcripts.Archive(t.Context(), ref, time.Now())
			require.NoError(t, err)
		}
		r := &recorder{TB: t}
		h := &Harness{
			t: r, store: store, left: map[session.Ref]bool{ref: true},
			lines: map[session.Ref][]session.Line{ref: make([]session.Line, c.lines)},
		}
		h.checkFormer()
		require.Contains(t, strings.Join(r.failed, "; "), c.want)
		require.Equal(t, c.want == "", len(r.failed) == 0)
	}
	r := &recorder{TB: t}
	h := &Harness{
		t: r, left: map[session.Ref]bool{ref: true}, lines: make(map[session.Ref][]session.Line),
	}
	h.noteLine(ref, session.Line{Pos: 1, Message: session.Fence(0, time.Now())})
	require.Empty(t, r.failed)
	h.noteLine(ref, session.Line{Pos: 2, Message: said})
	require.Len(t, r.failed, 1)
	require.Contains(t, r.failed[0], "after its reset")
}

// A transcript in use belongs to a session of a tree: the present one, and not an archived one.
func TestChecksOfTranscriptsInUse(t *testing.T) {
	root := session.Must(session.MainKey("main"))
	child := session.Must(root.Child("main", "6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"))
	at := func(seq session.Seq, kind string) fact {
		return fact{root, spawntest.Fact{Seq: seq, Kind: kind, Run: child, SessionID: "s"}}
	}
	const left = "is in use, and in no tree"
	for _, c := range []struct {
		kinds    []string
		archived bool // the transcript
		want     string
	}{
		{[]string{"admitted"}, false, ""},
		{nil, false, left}, // a spawn that was refused
		{[]string{"admitted", "archived"}, false, left},
		{[]string{"admitted", "archived"}, true, ""},
		{[]string{"admitted", "archived", "unarchived"}, false, ""},
		{[]string{"admitted", "archived", "revive_begun"}, false, left},
		{nil, true, ""},
	} {
		store, ref := session.NewMemory(), session.Ref{Key: child, SessionID: "s"}
		m := session.Message{Role: session.MessageUser, Text: "hello", Time: time.Now()}
		_, err := store.Transcripts.Append(t.Context(), ref, 0, m)
		require.NoError(t, err)
		if c.archived {
			_, err := store.Transcripts.Archive(t.Context(), ref, time.Now())
			require.NoError(t, err)
		}
		r := &recorder{TB: t}
		h := &Harness{t: r, store: store, lines: map[session.Ref][]session.Line{ref: nil}}
		for i, kind := range c.kinds {
			h.facts = append(h.facts, at(session.Seq(i+1), kind))
		}
		h.checkInUse()
		require.Contains(t, strings.Join(r.failed, "; "), c.want)
		require.Equal(t, c.want == "", len(r.failed) == 0, "%+v", c)
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

// Decision 1.8: the messages of a turn are those of the next one, too.
func TestRunnerThatChangesItsMessagesIsNoticed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(turn *agent.Turn)
		want   string
	}{
		"a text": {
			func(turn *agent.Turn) { turn.Messages[0].Text = "cut" }, "changed the messages",
		},
		"an argument": {func(turn *agent.Turn) {
			turn.Messages[1].ToolCalls[0].Args[2] = 'x'
		}, "changed the messages"},
		"its own list": {func(turn *agent.Turn) {
			turn.Messages = append(turn.Messages[1:], agent.Message{Text: "more"})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
				if turn.N == 2 {
					test.change(turn)
					return agent.Result{Text: "done"}, nil
				}
				return agent.Result{}, turn.Record(ctx, agent.Message{
					Role: session.MessageAssistant,
					ToolCalls: []agent.ToolCall{
						{ID: "1", Name: "ls", Args: []byte(`{"a":1}`)},
					},
				})
			}
			got := failures(t, agent.Config{Runner: agent.RunnerFunc(run)}, nil, nil,
				func(h *Harness) {
					h.Post("a")
					h.Pass(time.Minute)
					h.Post("b")
					h.Pass(time.Minute)
				})
			if test.want == "" {
				require.Empty(t, got)
			}
			require.Contains(t, got, test.want)
		})
	}
}

// R14: a goroutine that a killed process left behind may have seen the process alive. Whatever it
// does next, nothing of it is remembered once the process has been killed.
func TestGoroutineOfAKilledProcessIsNotHeard(t *testing.T) {
	key := session.Must(session.MainKey("main"))
	turn := &agent.Turn{Session: session.Lineage{Key: key}}
	for name, act := range map[string]func(h *Harness, proc *process) error{
		"turn":    func(h *Harness, proc *process) error { return h.noteTurnBegin(proc, turn) },
		"call":    func(h *Harness, proc *process) error { return h.noteCall(proc, "main") },
		"failure": func(h *Harness, proc *process) error { return h.noteFailure(proc, key) },
		"write": func(h *Harness, proc *process) error {
			return h.write(proc, "x", func() error { t.Error("it is written"); return nil })
		},
		"reply": func(h *Harness, proc *process) error {
			return h.replyOf(proc)(t.Context(), agent.Delivery{Reply: &agent.Reply{Text: "x"}})
		},
		"delivery": func(h *Harness, proc *process) error {
			d := agent.Delivery{Completion: &agent.Completion{}}
			return h.deliverOf(proc)(t.Context(), d)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, proc := &recorder{TB: t}, &process{}
			h := &Harness{
				t: r, ended: map[session.Key]bool{key: true}, calls: map[string]int{},
				turnsUnderWay: map[turnID]int{}, failed: map[session.Key]int{},
			}
			h.cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
			returned := make(chan error, 1)
			h.mu.Lock()
			go func() { returned <- act(h, proc) }()
			waitForLock()
			proc.dead.Store(true)
			h.mu.Unlock()
			require.ErrorIs(t, <-returned, errProcessKilled)
			require.Empty(t, r.failed)
			require.Empty(t, h.calls)
			require.Empty(t, h.failed)
			require.Empty(t, h.turnsUnderWay)
			require.Empty(t, h.replies)
			require.Empty(t, h.deliveries)
			require.Zero(t, h.writes)
		})
	}
}

// waitForLock returns once a goroutine of the test waits for the lock of the Harness.
func waitForLock() {
	buf := make([]byte, 1<<20)
	for {
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "TestGoroutineOfAKilledProcess") &&
				strings.Contains(g, "sync.(*Mutex).Lock(") {
				return
			}
		}
		runtime.Gosched()
	}
}

// R14: what a killed process and its successor both read back is one line, and a tree that has no
// owner yet refuses what a killed process still appends.
func TestTwoProcessesAtOneStore(t *testing.T) {
	key := session.Must(session.MainKey("main"))
	ref := session.Ref{Key: key, SessionID: session.NewID()}
	r := &recorder{TB: t}
	h := &Harness{
		t: r, store: session.NewMemory(), lines: map[session.Ref][]session.Line{},
		owners: map[session.Key]*process{},
	}
	for _, pos := range []session.Pos{1, 1, 2, 1, 2} {
		h.noteLine(ref, session.Line{Pos: pos})
	}
	require.Equal(t, []session.Line{{Pos: 1}, {Pos: 2}}, h.lines[ref])
	proc := &process{own: h.store}
	proc.dead.Store(true)
	_, err := proc.store(h).Journal.Append(t.Context(), key, 0, session.Batch{
		ID: "x", Entries: []session.Entry{{Payload: session.Raw(`{}`)}},
	})
	require.ErrorIs(t, err, errProcessKilled)
	require.Empty(t, r.failed)
}

// storeWith returns a store in memory with other files.
func storeWith(f func(session.Files) session.Files) *session.Store {
	s := session.NewMemory()
	s.Files = f(s.Files)
	return s
}

// lostFiles forget what was put.
type lostFiles struct{ session.Files }

func (lostFiles) Put(
	_ context.Context, _ session.Ref, r io.Reader, _ session.File,
) (session.File, error) {
	data, err := io.ReadAll(r)
	sum := sha256.Sum256(data)
	return session.File{Hash: hex.EncodeToString(sum[:]), Size: int64(len(data))}, err
}
