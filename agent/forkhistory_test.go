package agent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// TestForkHistories plays random histories of a conversation from which sub-agents are forked, by
// the program and from its turns, while it is compacted and reset, its process crashes, and the
// sub-agents are told more, stopped, deleted and brought back. Each sub-agent begins with what was
// committed, or with what the turn that spawns it has read and recorded, and keeps that beginning.
// The Harness audits each history.
//
// OFFSHOOT_FUZZ sets how many histories are played, in hundreds. A failure names its seed, which
// OFFSHOOT_SEED plays again.
func TestForkHistories(t *testing.T) {
	n := 500
	if underRace { // the step large of .ci/run plays all of them
		n = 10
	}
	if asked, err := strconv.Atoi(os.Getenv("OFFSHOOT_FUZZ")); err == nil && asked > 0 {
		n = max(asked/100, 40)
	}
	if testing.Short() {
		n = 4
	}
	first := rand.Uint64() >> 1
	if seed, err := strconv.ParseUint(os.Getenv("OFFSHOOT_SEED"), 10, 64); err == nil {
		first, n = seed, 1
	}
	happened := make(map[string]int)
	for seed := first; seed < first+uint64(n) && !t.Failed(); seed++ {
		w := &forkWorld{
			t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)),
			want: make(map[string][]string), began: make(map[string][]string), happened: happened,
		}
		w.play()
	}
	t.Log(happened)
	for _, what := range []string{
		"crash", "compact", "reset", "reset refused", "stop", "delete", "revive", "follow-up",
		"fork by the program", "fork by a turn", "fork checked", "fork of a summary",
		"fork after a crash", "fork after a reset",
	} {
		if n >= 40 && happened[what] == 0 {
			t.Errorf("%q did not happen in %d histories", what, n)
		}
	}
}

// forkWorld is one history.
type forkWorld struct {
	t    *testing.T
	seed uint64
	rand *rand.Rand
	h    *harness

	mu             sync.Mutex // held by what notes something
	spawned        int
	crashed, reset atomic.Bool
	keys           []session.Key
	want           map[string][]string // what a sub-agent is to begin with, by its label
	began          map[string][]string // what it has begun with
	happened       map[string]int
}

func (w *forkWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("OFFSHOOT_SEED=%d: %s", w.seed, fmt.Sprintf(format, args...))
}

func (w *forkWorld) play() {
	cfg := configWith(w.run)
	cfg.Models.Window = func(string) agent.Window {
		return agent.Window{Keep: 2, Compact: func(
			_ context.Context, q agent.CompactRequest,
		) (string, error) {
			return fmt.Sprintf("%d.", len(q.Messages)), nil
		}}
	}
	cfg.Rules.Subagents.MaxChildren = 20
	agenttest.Run(w.t, cfg, nil, func(h *harness) {
		w.h = h
		for range 6 + w.rand.IntN(20) {
			w.act()
			time.Sleep(time.Duration(w.rand.IntN(40_000)) * time.Millisecond)
		}
		h.Pass(3 * time.Hour)
	})
	for label, want := range w.want {
		if began, ok := w.began[label]; ok {
			w.check(label, want, began)
		}
	}
}

// count counts what happened.
func (w *forkWorld) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened[what]++
}

// anyKey returns a session.
func (w *forkWorld) anyKey() session.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.keys) == 0 {
		return w.h.Main().Key()
	}
	return w.keys[w.rand.IntN(len(w.keys))]
}

// act plays one random act.
func (w *forkWorld) act() {
	h := w.h
	ctx, cancel := context.WithTimeout(h.Context(), 2*time.Minute)
	defer cancel()
	key := w.anyKey()
	switch what := w.rand.IntN(16); what {
	case 0, 1, 2, 3, 4:
		h.Post(fmt.Sprint("question ", w.rand.Uint32()))
	case 5, 6, 7:
		w.fork(ctx)
	case 8, 9:
		h.Crash()
		w.crashed.Store(true)
		w.count("crash")
	case 10:
		w.did("compact", h.Main().Compact(ctx))
	case 11, 12:
		err := h.Main().Reset(ctx)
		if _, busy := errors.AsType[*spawn.ChildrenError](err); busy {
			w.count("reset refused")
			return
		}
		if err == nil {
			w.reset.Store(true)
		}
		w.did("reset", err)
	case 13:
		if key != h.Main().Key() {
			w.did("stop", h.Session(key).Stop(ctx))
		}
	case 14:
		if key != h.Main().Key() {
			w.did("delete", h.Runtime().DeleteSession(ctx, key))
		}
	default:
		if key != h.Main().Key() {
			w.did("revive", h.Session(key).Revive(ctx))
			_, err := h.Session(key).Post(ctx, agent.Incoming{Text: "go on"})
			w.did("follow-up", err)
		}
	}
}

// did counts an act, and checks that its error is one that is to be expected.
func (w *forkWorld) did(what string, err error) {
	w.t.Helper()
	for _, want := range []error{
		agent.ErrEnded, spawn.ErrStopping, agent.ErrNotFound, agent.ErrNothing, session.ErrArchived,
		context.DeadlineExceeded, spawn.ErrTurnCancelled,
	} {
		if errors.Is(err, want) {
			return
		}
	}
	if err != nil {
		w.fail("%s: %v", what, err)
		return
	}
	w.count(what)
}

// fork has the program fork a sub-agent from what is committed.
func (w *forkWorld) fork(ctx context.Context) {
	label := w.label()
	before := w.committed(ctx)
	child, err := w.h.Main().Spawn(ctx, forkTask(label))
	if _, nothing := errors.AsType[*agent.InputError](err); nothing && len(before) == 0 {
		return
	}
	if err != nil {
		w.did("fork by the program", err)
		return
	}
	if after := w.committed(ctx); len(after) != len(before) {
		before = nil // a turn ended meanwhile
	}
	w.forked("fork by the program", label, child.Key(), before)
}

// forked notes what a sub-agent is to begin with; nil: that is not known.
func (w *forkWorld) forked(how, label string, key session.Key, begin []string) {
	w.count(how)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = append(w.keys, key)
	if begin != nil {
		w.want[label] = begin
	}
}

func (w *forkWorld) label() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spawned++
	return fmt.Sprint("kid", w.spawned)
}

// committed returns what is committed of the conversation.
func (w *forkWorld) committed(ctx context.Context) []string {
	lines, err := committedLines(ctx, w.h.Main())
	if err != nil {
		w.fail("History: %v", err)
	}
	return lines
}

// committedLines returns what is committed of a conversation, as a sub-agent sees it that begins
// with it. It is nothing before the first message.
func committedLines(ctx context.Context, s *agent.Session) ([]string, error) {
	page, err := s.History(ctx, agent.HistoryQuery{Raw: true})
	if errors.Is(err, agent.ErrNotFound) {
		return nil, nil
	}
	var messages []agent.Message
	for _, line := range page.Lines {
		messages = append(messages, line.Message)
	}
	return copiedLines(messages), err
}

// copiedLines returns messages as a sub-agent sees them that begins with them.
func copiedLines(messages []agent.Message) (lines []string) {
	for _, line := range forkedLines(messages) {
		lines = append(lines, "> "+strings.TrimPrefix(line, "> "))
	}
	return lines
}

// run is the Runner of all sessions.
func (w *forkWorld) run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	roll := rand.New(rand.NewPCG(w.seed, uint64(len(tn.Session.Key.String()))<<32+uint64(tn.N)))
	if tn.Run != "" {
		w.see(tn)
		err := pause(ctx, time.Duration(roll.IntN(90))*time.Second)
		return agent.Result{Text: "Done."}, err
	}
	said := copiedLines(tn.Messages)
	for range roll.IntN(4) {
		if err := pause(ctx, time.Duration(roll.IntN(9))*time.Second); err != nil {
			return agent.Result{}, err
		}
		if roll.IntN(3) > 0 {
			m := agent.Message{
				Role: session.MessageAssistant, Text: fmt.Sprint("Hm ", tn.N, " ", roll.IntN(99)),
			}
			if err := tn.Record(ctx, m); err != nil {
				return agent.Result{}, err
			}
			said = append(said, copiedLines([]agent.Message{m})...)
			continue
		}
		label, before := w.label(), slices.Clone(said)
		child, err := tn.Spawn(ctx, forkTask(label))
		if err != nil {
			return agent.Result{}, err
		}
		w.forked("fork by a turn", label, child.Key(), before)
	}
	return agent.Result{Text: fmt.Sprint("answer ", tn.N)}, nil
}

// see compares what a sub-agent is shown with what it was shown before.
func (w *forkWorld) see(tn *agent.Turn) {
	var lines []string
	for _, line := range forkedLines(tn.Messages) {
		if strings.HasPrefix(line, "> ") {
			lines = append(lines, line)
		}
		if _, summary, ok := strings.Cut(line, summaryMark); ok {
			summary, _, _ = strings.Cut(summary, "<<<") // the code of a copy is its own
			lines = append(lines, summaryMark+summary)
		}
	}
	w.mu.Lock()
	old, again := w.began[tn.Label]
	w.began[tn.Label] = lines
	w.mu.Unlock()
	if again && !slices.Equal(old, lines) {
		w.fail("%s began with %q and now with %q", tn.Label, old, lines)
	}
	if !again && w.crashed.Load() {
		w.count("fork after a crash")
	}
	if !again && w.reset.Load() {
		w.count("fork after a reset")
	}
}

const summaryMark = "The conversation began with"

// check compares what a sub-agent has begun with with what it was to begin with.
func (w *forkWorld) check(label string, want, got []string) {
	w.count("fork checked")
	if len(got) > 0 && strings.Contains(got[0], summaryMark) {
		w.count("fork of a summary")
		got = got[1:]
		if len(want) > 0 && strings.Contains(want[0], summaryMark) {
			want = want[1:]
		} else if len(want) >= len(got) { // the history has what the summary stands for
			want = want[len(want)-len(got):]
		}
	}
	if !slices.Equal(want, got) {
		w.fail("%s began with %q, not with %q", label, got, want)
	}
}
