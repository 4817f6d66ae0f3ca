package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// Rules that change while turns are under way hold for each of their next calls, at every depth.
// Random trees are spawned under random rules, each session of them has a turn that does not end,
// and the rules are changed again and again. The matcher of the documentation says what each
// session may do then: what it was granted is within the rules of now, and no call adds to it.
func TestRulesOfNowHoldAlongTheLineage(t *testing.T) {
	trees, sum := 30, rightsSum{}
	if testing.Short() || underRace {
		trees = 12
	}
	for i := range trees {
		synctest.Test(t, func(t *testing.T) {
			w := &liveWorld{rightsWorld: &rightsWorld{
				t: t, seed: uint64(i), rand: rand.New(rand.NewPCG(uint64(i), 17)), sum: &sum,
				given: map[session.Key]*modelSession{}, turns: map[session.Key]int{},
			}}
			w.play()
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%+v", sum)
	if trees == 30 {
		require.Greater(t, sum.Checks, 20000)
		require.Greater(t, sum.Deepest, 100, "sessions five levels down")
		require.Greater(t, sum.Revoked, 500, "sessions that lost a tool")
		require.Greater(t, sum.Boxed, 100, "sessions that were put into a sandbox")
	}
}

// liveWorld is one tree under rules that change. Each of its sessions asks when it is told to.
type liveWorld struct {
	*rightsWorld

	rt    *agent.Runtime
	ask   map[session.Key]chan chan struct{}
	above map[session.Key]session.Key
	// began has what each session was given when its turn began.
	began map[session.Key]*modelSession
}

func (w *liveWorld) play() {
	w.store = session.NewMemory()
	w.root = topKey
	rules := w.rules()
	rules.Subagents.MaxConcurrent, rules.Subagents.MaxSpawnDepth = 100, 5
	w.spawnTree(rules)
	cfg := w.config(rules)
	cfg.Runner = agent.RunnerFunc(w.stay)
	rt, err := agent.Open(w.t.Context(), cfg)
	require.NoError(w.t, err)
	w.rt, w.ask = rt, make(map[session.Key]chan chan struct{})
	w.above = make(map[session.Key]session.Key)
	runs, err := rt.Session(w.root).Tree(w.t.Context())
	require.NoError(w.t, err)
	for _, r := range runs {
		w.above[r.Key] = r.Parent
	}
	for _, key := range append(w.order, w.root) {
		w.ask[key] = make(chan chan struct{})
	}
	w.set(rules)
	w.began = w.now
	ctx, quit := context.WithCancel(w.t.Context())
	ran := make(chan error, 1)
	go func() { ran <- rt.Run(ctx) }()
	_, err = rt.Session(w.root).Post(ctx, agent.Incoming{Text: "begin"})
	require.NoError(w.t, err)
	synctest.Wait()
	for range 6 {
		rules = w.change(rules)
		require.NoError(w.t, rt.SetRules(rules))
		w.set(rules)
		w.look()
		var asked []chan struct{}
		for _, key := range append(w.order, w.root) { // all at once
			done := make(chan struct{})
			w.ask[key] <- done
			asked = append(asked, done)
		}
		for _, done := range asked {
			<-done
		}
	}
	quit()
	require.NoError(w.t, <-ran)
}

// set says what each session may do under rules.
func (w *liveWorld) set(rules policy.Rules) {
	m := rightsModel{&rules}
	top := m.top(w.root, "p/top", rightsCatalog)
	w.now = map[session.Key]*modelSession{w.root: &top}
	for _, key := range w.order {
		now := m.today(w.now[w.above[key]], w.given[key])
		w.now[key] = &now
	}
}

// look compares what is told of the tree.
func (w *liveWorld) look() {
	runs, err := w.rt.Session(w.root).Tree(w.t.Context())
	require.NoError(w.t, err)
	for _, r := range runs {
		given, now := w.given[r.Key], w.now[r.Key]
		if given == nil { // a turn has spawned it
			continue
		}
		w.sum.count(given, now)
		w.check(r.Key, "RunInfo.Tools", now.tools, r.Tools)
		w.check(r.Key, "RunInfo.Sandboxed", now.sandboxed, r.Sandboxed)
	}
}

// stay is the Runner: a turn that asks again and again what it may do.
func (w *liveWorld) stay(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	key := t.Session.Key
	if w.given[key] == nil {
		return textResult("ok")
	}
	offered := toolNamesOf(t.Tools)
	for {
		var done chan struct{}
		select {
		case <-ctx.Done():
			return agent.Result{}, context.Cause(ctx)
		case done = <-w.ask[key]:
		}
		w.mu.Lock()
		w.askAll(ctx, t, offered)
		w.mu.Unlock()
		close(done)
	}
}

// askAll compares what a turn may do with what the model says.
func (w *liveWorld) askAll(ctx context.Context, t *agent.Turn, offered []string) {
	key := t.Session.Key
	now, boxed := w.now[key], w.began[key].sandboxed
	w.check(key, "the Tools that it began with", w.began[key].tools, offered)
	for _, tool := range rightsCatalog[:len(rightsCatalog)-8] {
		out, err := t.Call(ctx, agent.ToolCall{ID: tool, Name: tool})
		switch {
		case slices.Contains(now.tools, tool) && slices.Contains(offered, tool):
			w.check(key, "CallerOf", fmt.Sprint(true, key, now.sandboxed || boxed), out.Text)
		case slices.Contains(offered, tool):
			w.check(key, "a call of "+tool+" refused", true,
				errors.Is(err, &policy.Refusal{Rule: policy.RuleTools, Op: "tool call"}))
		default:
			w.check(key, "a call of "+tool+" refused", true, err != nil)
		}
	}
	w.spawnMore(ctx, t, now)
}

// Rules are changed between any two calls, beside four sessions that call without a pause. What
// each call comes to is what one set of rules says, as a whole: one that was in force at some
// moment of the call. So none is kept after it was replaced, and no two are mixed.
func TestRulesChangeBetweenAnyTwoCalls(t *testing.T) {
	seeds := 6
	if testing.Short() || underRace {
		seeds = 2
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { newFlipWorld(t, uint64(seed)).play() })
		if t.Failed() {
			return
		}
	}
}

// flipTools are the tools of the caller in a flipWorld.
var flipTools = []string{"t0", "t1", "t2", "t3"}

// A flipRules is one set of rules, as it is described to those who check.
type flipRules struct {
	deny, denyA []string // by all, and by agent a
	mayA, mayB  bool     // which agents main may have
	sees        bool     // other conversations of the agent
	boxed       bool     // in a sandbox, which sees only what it has spawned
}

func (f *flipRules) rules() policy.Rules {
	r := policy.Rules{
		Subagents: policy.Subagents{MaxChildren: 20, MaxConcurrent: 64},
		Agents: []policy.Agent{
			{ID: "main"}, {ID: "a", Tools: policy.ToolPolicy{Deny: f.denyA}}, {ID: "b"},
		},
		Tools:      policy.ToolPolicy{Deny: f.deny},
		Visibility: policy.VisibilityTree,
	}
	r.Subagents.AllowAgents = []string{}
	for id, may := range map[string]bool{"a": f.mayA, "b": f.mayB} {
		if may {
			r.Subagents.AllowAgents = append(r.Subagents.AllowAgents, id)
		}
	}
	if f.sees {
		r.Visibility = policy.VisibilityAgent
	}
	if f.boxed {
		r.Sandbox.Mode = policy.SandboxAll
		r.Sandbox.Tools = policy.ToolRules{Allow: []string{"*"}, Deny: []string{}}
	}
	return r
}

// flipWorld is one history.
type flipWorld struct {
	t     *testing.T
	seed  uint64
	rt    *agent.Runtime
	other session.Key
	all   []flipRules // by version; of a version that is set, not changed

	begun, set atomic.Int64 // the newest version that is being set, and that is
	calls      atomic.Int64
	ready      sync.WaitGroup
}

func newFlipWorld(t *testing.T, seed uint64) *flipWorld {
	w := &flipWorld{
		t: t, seed: seed, other: session.Must(session.DirectKey("main", "chat", "other")),
	}
	r := rand.New(rand.NewPCG(seed, 3))
	some := func() (list []string) {
		for _, name := range flipTools {
			if r.IntN(3) == 0 {
				list = append(list, name)
			}
		}
		return list
	}
	w.all = append(w.all, flipRules{mayA: true, mayB: true, sees: true}) // everything is granted
	for range 150 {
		w.all = append(w.all, flipRules{
			deny: some(), denyA: some(), mayA: r.IntN(4) > 0, mayB: r.IntN(2) > 0,
			sees: r.IntN(2) > 0, boxed: r.IntN(3) == 0,
		})
	}
	return w
}

func (w *flipWorld) play() {
	ctx := w.t.Context()
	cfg := configWith(w.turn)
	cfg.Rules = w.all[0].rules()
	for _, name := range flipTools {
		cfg.Tools = append(cfg.Tools, namedTool(name))
	}
	rt, err := agent.Open(ctx, cfg)
	require.NoError(w.t, err)
	w.rt = rt
	ran := make(chan error, 1)
	go func() { ran <- rt.Run(ctx) }()
	_, err = rt.Session(w.other).Post(ctx, agent.Incoming{Text: "x"})
	require.NoError(w.t, err)
	require.NoError(w.t, rt.Session(w.other).Idle(ctx))
	w.ready.Add(3)
	_, err = rt.Session(topKey).Post(ctx, agent.Incoming{Text: "work"})
	require.NoError(w.t, err)
	w.ready.Wait() // two turns, and a loop of the caller's, are under way
	r := rand.New(rand.NewPCG(w.seed, 4))
	for v := 1; v < len(w.all); v++ {
		w.begun.Store(int64(v))
		require.NoError(w.t, rt.SetRules(w.all[v].rules()))
		w.set.Store(int64(v))
		for until := w.calls.Load() + int64(r.IntN(4)); w.calls.Load() < until; {
			runtime.Gosched()
		}
	}
	require.NoError(w.t, rt.Session(topKey).Idle(ctx))
	require.NoError(w.t, rt.Shutdown(ctx))
	require.NoError(w.t, <-ran)
}

// over reports whether the last rules are in force.
func (w *flipWorld) over() bool { return w.set.Load() == int64(len(w.all)-1) }

// turn is the Runner: the top-level session of the history, its sub-agents of agent a, which work,
// and all else, which does not.
func (w *flipWorld) turn(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	switch {
	case t.Session.Key == topKey && t.N == 1:
		child, err := t.Spawn(ctx, agent.Task{Text: "work", Agent: "a", Label: "work"})
		require.NoError(w.t, err)
		loop := make(chan struct{})
		go func() {
			defer close(loop)
			w.callOutside(ctx)
		}()
		w.callInside(ctx, t, false)
		<-loop
		_, err = child.Wait(ctx)
		require.NoError(w.t, err)
	case t.Session.Key.IsSubagent() && t.Label == "work":
		w.callInside(ctx, t, true)
	}
	return textResult("ok")
}

// callInside calls from a turn, until the last rules are in force and for some calls more.
func (w *flipWorld) callInside(ctx context.Context, t *agent.Turn, child bool) {
	r := rand.New(rand.NewPCG(w.seed, uint64(len(t.Session.Key.String()))))
	w.ready.Done()
	w.ready.Wait()
	for left := 20; left > 0; {
		if w.over() {
			left--
		}
		switch kind := r.IntN(8); {
		case kind < 5 || child:
			name := pick(r, flipTools...)
			w.call("a call of "+name, func() bool {
				_, err := t.Call(ctx, agent.ToolCall{ID: "x", Name: name})
				if _, refused := errors.AsType[*policy.Refusal](err); err != nil {
					assert.True(w.t, refused, "%v", err)
				}
				return err == nil
			}, func(f *flipRules) bool {
				return !slices.Contains(f.deny, name) &&
					(!child || f.mayA && !slices.Contains(f.denyA, name))
			})
		case kind < 7:
			id := pick(r, "a", "b")
			w.call("a spawn of "+id, func() bool {
				for {
					_, err := t.Spawn(ctx, agent.Task{Text: "x", Agent: id})
					if errors.Is(err, &policy.Refusal{Rule: policy.RuleChildren}) {
						runtime.Gosched() // until some have ended
						continue
					}
					if err != nil {
						assert.ErrorIs(w.t, err, &policy.Refusal{Rule: policy.RuleAgents})
					}
					return err == nil
				}
			}, func(f *flipRules) bool { return id == "a" && f.mayA || id == "b" && f.mayB })
		default:
			w.list(ctx, t.Call)
		}
	}
}

// callOutside calls the tools of a loop of the caller's.
func (w *flipWorld) callOutside(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.seed, 9))
	tools := w.rt.Session(topKey).Tools()
	call := func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
		i := slices.IndexFunc(tools, func(tool agent.Tool) bool { return tool.Name == c.Name })
		return tools[i].Call(ctx, c)
	}
	w.ready.Done()
	w.ready.Wait()
	for left := 20; left > 0; {
		if w.over() {
			left--
		}
		if r.IntN(2) == 0 {
			w.list(ctx, call)
			continue
		}
		id := pick(r, "a", "b")
		w.call("agents_list of "+id, func() bool {
			out, err := call(ctx, agent.ToolCall{ID: "x", Name: "agents_list"})
			assert.NoError(w.t, err)
			return strings.Contains(out.Text, fmt.Sprintf(`"id":%q`, id))
		}, func(f *flipRules) bool { return id == "a" && f.mayA || id == "b" && f.mayB })
	}
}

// list calls sessions_list and looks for the other conversation.
func (w *flipWorld) list(
	ctx context.Context, call func(context.Context, agent.ToolCall) (agent.ToolResult, error),
) {
	w.call("sessions_list", func() bool {
		out, err := call(ctx, agent.ToolCall{
			ID: "x", Name: "sessions_list", Args: json.RawMessage(`{"kinds":["direct"],"limit":200}`),
		})
		assert.NoError(w.t, err)
		return strings.Contains(out.Text, w.other.String())
	}, func(f *flipRules) bool { return f.sees && !f.boxed })
}

// call compares what a call comes to with what the rules say that were in force meanwhile.
func (w *flipWorld) call(what string, try func() bool, want func(*flipRules) bool) {
	from := w.set.Load()
	got := try()
	to := w.begun.Load()
	w.calls.Add(1)
	for v := from; v <= to; v++ {
		if want(&w.all[v]) == got {
			return
		}
	}
	assert.Fail(w.t, "no rules say so", "seed %d: %s: %v under rules %d to %d: %+v",
		w.seed, what, got, from, to, w.all[from:to+1])
}
