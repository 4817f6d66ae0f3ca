package agent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// rightsCatalog are the tools of the bots whose rights are tested, those of Offshoot included.
var rightsCatalog = strings.Fields("read write edit apply_patch exec process web_search web_fetch" +
	" message cron my_tool sessions_spawn subagents sessions_yield sessions_send" +
	" agents_list sessions_list sessions_history session_status")

// S4: a rule that became stricter between two lives of a process reaches every sub-agent under way,
// through every session above it, and a rule that became more lenient gives nothing back. Random
// trees of up to five levels are spawned under random rules and run under changed ones. A matcher
// that was written from the documentation alone says what each session may do then.
func TestPolicyOfTodayHoldsAlongTheLineage(t *testing.T) {
	trees, sum := 150, rightsSum{}
	small := testing.Short() || underRace
	if small {
		trees = 20
	}
	for i := range trees {
		synctest.Test(t, func(t *testing.T) {
			w := &rightsWorld{
				t: t, seed: uint64(i), rand: rand.New(rand.NewPCG(uint64(i), 4)), sum: &sum,
				given: map[session.Key]*modelSession{}, turns: map[session.Key]int{},
			}
			w.play()
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%+v", sum)
	if !small {
		require.Greater(t, sum.Checks, 20000)
		require.Greater(t, sum.Deepest, 100, "sessions five levels down")
		require.Greater(t, sum.Revoked, 300, "sessions that lost a tool")
		require.Greater(t, sum.Boxed, 100, "sessions that were put into a sandbox")
	}
}

// rightsSum is what was tested.
type rightsSum struct{ Sessions, Checks, Deepest, Revoked, Boxed int }

// count notes a session, by what it was given and what is left to it now.
func (s *rightsSum) count(given, now *modelSession) {
	s.Sessions++
	if given.depth == 5 {
		s.Deepest++
	}
	if len(now.tools) < len(given.tools) {
		s.Revoked++
	}
	if now.sandboxed && !given.sandboxed {
		s.Boxed++
	}
}

// rightsWorld is one tree and its two lives.
type rightsWorld struct {
	t     *testing.T
	seed  uint64
	rand  *rand.Rand
	sum   *rightsSum
	store *session.Store
	root  session.Key
	order []session.Key // of the sub-agents, parents first
	given map[session.Key]*modelSession

	mu    sync.Mutex
	now   map[session.Key]*modelSession // in the second life
	turns map[session.Key]int
}

func (w *rightsWorld) play() {
	w.store = session.NewMemory()
	w.root = topKey
	if w.rand.IntN(2) == 0 {
		w.root = session.Must(session.GroupKey("main", "telegram", "42"))
	}
	before := w.rules()
	w.spawnTree(before)
	w.secondLife(w.change(before))
}

// config returns the bot under some rules. Its tools note whom they are called for.
func (w *rightsWorld) config(rules policy.Rules) agent.Config {
	cfg := configWith(w.turn)
	cfg.Store, cfg.Rules, cfg.Models.Model = w.store, rules, "p/top"
	cfg.Prompts.Input.Sandbox.Dir = "/inside"
	for _, name := range rightsCatalog[:len(rightsCatalog)-8] {
		cfg.Tools = append(cfg.Tools, agent.Tool{
			Name: name, Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
				who, ok := agent.CallerOf(ctx)
				return fmt.Sprint(ok, who.Session.Key, who.Sandboxed), nil
			}),
		})
	}
	return cfg
}

// spawnTree spawns the tree in a first life, in which no turn runs.
func (w *rightsWorld) spawnTree(rules policy.Rules) {
	ctx, m := w.t.Context(), rightsModel{&rules}
	rt, err := agent.Open(ctx, w.config(rules))
	require.NoError(w.t, err)
	top := m.top(w.root, "p/top", rightsCatalog)
	w.given[w.root] = &top
	type open struct {
		s    *agent.Session
		have *modelSession
	}
	for queue := []open{{rt.Session(w.root), &top}}; len(queue) > 0; queue = queue[1:] {
		above := queue[0]
		for range 1 + w.rand.IntN(2) {
			task := agent.Task{Text: "work", Agent: pick(w.rand, "", "main", "a", "b")}
			if w.rand.IntN(4) == 0 {
				task.Tools = some(w.rand, 0.6)
			}
			if len(w.order) == 30 {
				continue
			}
			c, err := agent.Spawn[string](ctx, above.s, task)
			if err != nil {
				_, refused := errors.AsType[*policy.Refusal](err)
				require.True(w.t, refused, "seed %d: %v", w.seed, err)
				continue
			}
			info, err := c.Info(ctx)
			require.NoError(w.t, err)
			have := m.child(above.have, c.Key(), info.Agent, info.Model.Resolved, task.Tools)
			w.check(info.Key, "granted", have.tools, info.Tools)
			w.check(info.Key, "granted sandbox", have.sandboxed, info.Sandboxed)
			w.given[c.Key()] = &have
			w.order = append(w.order, c.Key())
			queue = append(queue, open{c.Session(), &have})
		}
	}
	require.NoError(w.t, rt.Shutdown(ctx))
}

// secondLife runs the tree under other rules.
func (w *rightsWorld) secondLife(rules policy.Rules) {
	ctx, m := w.t.Context(), rightsModel{&rules}
	top := m.top(w.root, "p/top", rightsCatalog)
	w.now = map[session.Key]*modelSession{w.root: &top}
	cfg := w.config(rules)
	rt, err := agent.Open(ctx, cfg)
	require.NoError(w.t, err)
	s := rt.Session(w.root)
	runs, err := s.Tree(ctx)
	require.NoError(w.t, err)
	for _, r := range runs {
		given := w.given[r.Key]
		now := m.today(w.now[r.Parent], given)
		w.now[r.Key] = &now
		w.sum.count(given, &now)
		w.check(r.Key, "RunInfo.Tools", now.tools, r.Tools)
		w.check(r.Key, "RunInfo.Revoked", slices.DeleteFunc(slices.Clone(given.tools),
			func(tool string) bool { return slices.Contains(now.tools, tool) }), r.Revoked)
		w.check(r.Key, "RunInfo.Sandboxed", now.sandboxed, r.Sandboxed)
	}
	w.check(w.root, "sessions", len(w.order), len(runs))
	ran := make(chan error, 1)
	go func() { ran <- rt.Run(ctx) }()
	require.NoError(w.t, errorOf(s.Post(ctx, agent.Incoming{Text: "how are things?"})))
	time.Sleep(time.Hour)
	require.NoError(w.t, rt.Shutdown(ctx))
	require.NoError(w.t, <-ran)
	for _, key := range append(w.order, w.root) {
		require.Positive(w.t, w.turns[key], "seed %d: no turn of %s", w.seed, key)
	}
	in := inputOf(w.t, cfg, w.root)
	w.check(w.root, "Config.Input", top.sandboxed, in.Sandbox.Enabled)
}

var toolLine = regexp.MustCompile("(?m)^- `([a-z_]+)`")

// turn is the Runner. It compares what the turn is told and may do with what the model says.
func (w *rightsWorld) turn(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := t.Session.Key
	w.turns[key]++
	now := w.now[key]
	if now == nil { // spawned in this life
		return textResult("ok")
	}
	w.check(key, "Turn.Tools", now.tools, toolNamesOf(t.Tools))
	w.check(key, "Turn.Sandboxed", now.sandboxed, t.Sandboxed)
	prompt := t.Prompt.String()
	var listed []string
	for _, match := range toolLine.FindAllStringSubmatch(prompt, -1) {
		if !slices.Contains(listed, match[1]) { // another section may name it, too
			listed = append(listed, match[1])
		}
	}
	want := slices.Sorted(slices.Values(now.tools))
	w.check(key, "the prompt's tools", want, listed)
	w.check(key, "the prompt's sandbox", now.sandboxed, strings.Contains(prompt, "## Sandbox\n"))
	w.check(key, "its directory", now.sandboxed, strings.Contains(prompt, "/inside"))
	for _, tool := range rightsCatalog[:len(rightsCatalog)-8] {
		out, err := t.Call(ctx, agent.ToolCall{ID: tool, Name: tool})
		if slices.Contains(now.tools, tool) {
			w.check(key, "CallerOf", fmt.Sprint(true, key, now.sandboxed), out.Text)
		} else {
			w.check(key, "a call of "+tool+" refused", true, err != nil)
		}
	}
	w.spawnMore(ctx, t, now)
	return textResult("ok")
}

// spawnMore has a turn spawn, and compares what the child is given with what may be handed down.
func (w *rightsWorld) spawnMore(ctx context.Context, t *agent.Turn, now *modelSession) {
	key := t.Session.Key
	c, err := t.Spawn(ctx, agent.Task{Text: "more"})
	if err != nil {
		return
	}
	w.check(key, "a spawn of a leaf", false, now.leaf)
	info, err := c.Info(ctx)
	require.NoError(w.t, err)
	for _, tool := range info.Tools {
		w.check(key, "a child's "+tool, true, slices.Contains(now.delegable, tool))
	}
	w.check(key, "a child's sandbox", true, info.Sandboxed || !now.sandboxed)
}

// check compares what the model says of a session with what is.
func (w *rightsWorld) check(key session.Key, what string, want, got any) {
	w.t.Helper()
	w.sum.Checks++
	if fmt.Sprint(want) != fmt.Sprint(got) {
		w.t.Errorf("seed %d: %s of %s: %v, want %v", w.seed, what, key, got, want)
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// some returns entries for a list of tools.
func some(r *rand.Rand, share float64) []string {
	list := []string{}
	entries := append(slices.Clone(rightsCatalog), "group:fs", "web_*", "group:mine", "Sessions_*")
	for _, entry := range entries {
		if r.Float64() < share {
			list = append(list, entry)
		}
	}
	return list
}

func (w *rightsWorld) mode() policy.SandboxMode {
	return pick(w.rand, policy.SandboxInherit, policy.SandboxInherit, policy.SandboxInherit,
		policy.SandboxOff, policy.SandboxNonMain, policy.SandboxAll)
}

// rules returns rules under which most of what is asked for is granted.
func (w *rightsWorld) rules() policy.Rules {
	r := policy.Rules{
		Subagents: policy.Subagents{
			MaxSpawnDepth: pick(w.rand, 5, 5, 5, 3), MaxChildren: 20, AllowAgents: []string{"*"},
		},
		Groups: map[string][]string{"group:mine": {"my_*", "edit"}},
		Agents: []policy.Agent{{ID: "main"}, {ID: "a"}, {ID: "b"}},
	}
	for range w.rand.IntN(3) {
		w.changeOne(&r)
	}
	return r
}

// change returns rules that differ from others in a few places.
func (w *rightsWorld) change(from policy.Rules) policy.Rules {
	r := from
	r.Agents = slices.Clone(from.Agents)
	for range 1 + w.rand.IntN(3) {
		w.changeOne(&r)
	}
	return r
}

func (w *rightsWorld) changeOne(r *policy.Rules) {
	a := &r.Agents[w.rand.IntN(len(r.Agents))]
	deny := policy.ToolRules{Deny: some(w.rand, 0.1)}
	switch w.rand.IntN(16) {
	case 0, 1:
		a.Tools.Deny = some(w.rand, 0.1)
	case 2:
		a.Tools.Allow = some(w.rand, 0.8)
	case 3:
		a.Tools.Profile = pick(w.rand, "", "full", "coding")
		a.Tools.AlsoAllow = some(w.rand, 0.3)
	case 4:
		a.Tools.Delegable = pick(w.rand, nil, &deny, &policy.ToolRules{Allow: some(w.rand, 0.8)})
	case 5:
		p := policy.ToolPolicy{Deny: some(w.rand, 0.2)}
		a.Tools.ByProvider = pick(w.rand, nil, map[string]policy.ToolPolicy{"p": p})
	case 6, 7:
		a.Sandbox = w.mode()
	case 8:
		r.Sandbox.Mode = w.mode()
	case 9:
		a.SandboxTools = policy.ToolRules{Allow: some(w.rand, 0.7)}
	case 10:
		r.Tools = policy.ToolPolicy{Allow: some(w.rand, 0.9), Deny: some(w.rand, 0.05)}
	case 11, 12:
		peer := pick(w.rand, "*", "42", "43")
		r.Chats = append(slices.Clone(r.Chats),
			policy.Chat{Channel: "telegram", Peer: peer, Tools: deny})
	case 13:
		r.SubagentTools = pick(w.rand, deny, policy.ToolRules{AlsoAllow: []string{"cron"}})
	case 14:
		r.Subagents.MaxSpawnDepth = 1 + w.rand.IntN(5)
	case 15:
		if w.rand.IntN(2) == 0 && len(r.Agents) > 1 {
			r.Agents = r.Agents[:len(r.Agents)-1]
		} else {
			a.Subagents.AllowAgents = pick(w.rand, nil, []string{}, []string{"a"}, []string{"*"})
		}
	}
}

// S4: an agent that is not in the list of agents, by a typo or since it was taken out between two
// lives, has no tools and no sub-agents, and is told nothing.
func TestAgentsThatAreNotListed(t *testing.T) {
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		var names []string
		for _, tool := range tn.Tools {
			names = append(names, tool.Name)
		}
		return textResult(fmt.Sprint(names))
	})
	cfg.Tools = []agent.Tool{namedTool("refund"), namedTool("template")}
	cfg.Rules.Agents = []policy.Agent{
		{ID: "main"}, {ID: "writer", Tools: policy.ToolPolicy{Allow: []string{"template"}}},
	}
	writer := session.Must(session.DirectKey("writer", "chat", "1"))
	store := session.NewMemory()
	type task func(ctx context.Context, rt *agent.Runtime)
	life := func(rules policy.Rules, f task, want ...string) {
		synctest.Test(t, func(t *testing.T) {
			var said []string
			cfg.Store, cfg.Rules = store, rules
			cfg.Reply = func(_ context.Context, d agent.Delivery) error {
				said = append(said, d.Reply.Text)
				return nil
			}
			rt, err := agent.Open(t.Context(), cfg)
			require.NoError(t, err)
			f(t.Context(), rt)
			if want != nil {
				go func() { _ = rt.Run(t.Context()) }()
				require.NoError(t, rt.Session(writer).Idle(t.Context()))
			}
			require.NoError(t, rt.Shutdown(t.Context()))
			require.Equal(t, want, said)
		})
	}
	hello := func(ctx context.Context, rt *agent.Runtime) {
		require.NoError(t, errorOf(rt.Session(writer).Post(ctx, agent.Incoming{Text: "hello"})))
	}
	life(cfg.Rules, hello, "[template]")
	life(cfg.Rules, hello) // a message that the next life finds
	without := policy.Rules{Agents: cfg.Rules.Agents[:1]}
	life(without, func(ctx context.Context, rt *agent.Runtime) {
		for _, agentID := range []string{"writer", "mian"} {
			s := rt.Session(session.Must(session.DirectKey(agentID, "chat", "1")))
			_, err := s.Post(ctx, agent.Incoming{Text: "hello"})
			require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTarget, Op: "session"})
			require.ErrorContains(t, err, "Rules.Agents (agents.list)")
			_, err = agent.Spawn[string](ctx, s, agent.Task{Text: "x"})
			require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTarget})
			require.Empty(t, s.Tools())
		}
	}, "[]")
}
