package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

var anyID = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{10,16}\b`)

// A probe runs a bot and notes all that a user could see of it.
type probe struct {
	cfg   agent.Config
	tasks []agent.Task // spawned from Go
	args  string       // of a sessions_spawn of the main session
	only  bool         // each session spawns one sub-agent, not two

	mu     sync.Mutex
	lines  []string
	active map[bool]int // turns under way, of sub-agents or not
}

func (p *probe) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, anyID.ReplaceAllString(fmt.Sprintf(format, args...), "ID"))
}

// turn notes that a turn begins or ends, and how many there are then.
func (p *probe) turn(sub bool, n int) {
	p.mu.Lock()
	p.active[sub] += n
	now := p.active[sub]
	p.mu.Unlock()
	if n > 0 {
		p.note("turns of sub-agents %v: %d", sub, now)
	}
}

// Run implements agent.Runner: each session spends, tries to spawn, and takes a while.
func (p *probe) Run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	sub := tn.Run != ""
	p.turn(sub, 1)
	defer p.turn(sub, -1)
	who := fmt.Sprintf("%s %q turn %d", tn.Session.Key, tn.Label, tn.N)
	p.note("%s: model %s thinking %s sandboxed %v", who, tn.Model, tn.Thinking, tn.Sandboxed)
	p.note("%s: prompt %s", who, tn.Prompt)
	p.note("%s: new %s", who, tn.Input())
	if end, ok := ctx.Deadline(); ok {
		p.note("%s: until %s", who, time.Until(end))
	}
	p.note("%s: spend %v", who, tn.Spend(ctx, agent.Usage{Input: 60, Cost: 0.6}))
	if tn.N == 1 {
		for _, label := range []string{"own", "coder"} {
			args := `{"task":"t","label":"own"}`
			if label == "coder" {
				if p.only {
					break
				}
				args = `{"task":"t","label":"coder","agentId":"coder"}`
			}
			out, err := tn.Call(ctx, agent.ToolCall{
				ID: label, Name: "sessions_spawn", Args: json.RawMessage(args),
			})
			p.note("%s: spawn %s %s %v", who, label, out.Text, err)
		}
	}
	if sub {
		half := agent.Progress{Text: "half", Percent: 50, Milestone: true}
		p.note("%s: reports %v", who, tn.Report(ctx, half))
	}
	err := pause(ctx, probePause(tn))
	p.note("%s: ends %v", who, err)
	return agent.Result{Text: "done " + tn.Label}, err
}

// probePause is how long a turn takes: no two of a run begin or end at the same time.
func probePause(tn *agent.Turn) time.Duration {
	d := 5*time.Second + time.Duration(len(tn.Session.Root.String()))*11*time.Millisecond
	d += time.Duration(tn.Session.Depth*3700+tn.N*130) * time.Millisecond
	return d + time.Duration(len(tn.Label))*900*time.Millisecond
}

// observe runs the bot for two hours and returns what was seen, or why it was refused.
func (p *probe) observe(t *testing.T) (seen, refused string) {
	t.Helper()
	p.active = make(map[bool]int)
	cfg := p.cfg
	cfg.Runner = p
	if _, err := agent.Open(t.Context(), cfg); err != nil {
		return "", err.Error()
	}
	synctest.Test(t, func(t *testing.T) {
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- rt.Run(t.Context()) }()
		if refused = p.use(t, rt); refused == "" {
			var keys []session.Key
			for range 2 { // before the archive, and after it
				time.Sleep(time.Hour - time.Minute)
				runs, err := rt.Session(topKey).Tree(t.Context())
				require.NoError(t, err)
				for _, r := range runs {
					keys = append(keys, r.Key)
					p.note("run %q %s %s %s: %s %v %s", r.Label, r.Name, r.Agent, r.Status, r.Error, r.Warnings, r.Tools)
				}
				time.Sleep(5 * time.Minute)
			}
			for _, k := range keys {
				page, err := rt.Session(k).History(t.Context(), agent.HistoryQuery{})
				p.note("archived %v %v", page.Archived, err == nil)
			}
		}
		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-ended)
	})
	slices.Sort(p.lines)
	return strings.Join(p.lines, "\n"), refused
}

// use asks the bot for something, in every way there is.
func (p *probe) use(t *testing.T, rt *agent.Runtime) (refused string) {
	t.Helper()
	ctx, main := t.Context(), rt.Session(topKey)
	for i, task := range p.tasks {
		c, err := agent.Spawn[string](ctx, main, task)
		if err != nil {
			return err.Error()
		}
		p.note("task %d: %s", i, c.ID())
		if i > 0 {
			first, err := main.Runs(ctx)
			require.NoError(t, err)
			p.note("%d runs", len(first))
		}
	}
	if p.args != "" {
		out, err := findTool(t, main.Tools(), "sessions_spawn").Call(ctx,
			agent.ToolCall{ID: "1", Args: json.RawMessage(p.args)})
		if bad, ok := errors.AsType[*agent.ArgumentError](err); ok {
			return bad.Error()
		}
		require.NoError(t, err)
		p.note("tool %s", out.Text)
		return ""
	}
	if p.tasks == nil {
		irc := session.Must(session.GroupKey("main", "irc", "#a"))
		for _, key := range []session.Key{topKey, irc, session.Must(session.MainKey("coder"))} {
			if _, err := rt.Session(key).Post(ctx, agent.Incoming{Text: "go"}); err != nil {
				require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTarget})
				p.note("%v", err)
			}
		}
	}
	return ""
}

// An effect sets a field, above a base without it.
type effect[T any] struct {
	base, set func(*T)
	refused   string // a part of the refusal; empty: it has an effect
}

// check requires that each field has a row, and that each row has an effect or is refused.
func check[T any](
	t *testing.T, fields map[string]bool, rows map[string]effect[T],
	observe func(t *testing.T, v T) (seen, refused string),
) {
	t.Helper()
	require.Equal(t, slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(rows)),
		"each field has a row here that shows its effect, or that it is refused")
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			var without, with T
			if row.base != nil {
				row.base(&without)
				row.base(&with)
			}
			row.set(&with)
			before, refused := observe(t, without)
			require.Empty(t, refused)
			again, _ := observe(t, without)
			require.Equal(t, before, again, "what is observed must be what the field does")
			after, refused := observe(t, with)
			if row.refused != "" {
				require.Contains(t, refused, row.refused)
				return
			}
			require.Empty(t, refused)
			require.NotEqual(t, before, after, "it has no effect")
		})
	}
}

// exported returns the exported fields of a struct.
func exported[T any]() map[string]bool {
	names := make(map[string]bool)
	for f := range reflect.TypeFor[T]().Fields() {
		if f.IsExported() {
			names[f.Name] = true
		}
	}
	return names
}

// effectPrompts have a skill, and limits that the files of effectWorkspace are over.
var effectPrompts = agent.Prompts{
	Input: agentctx.Input{Limits: agentctx.Limits{File: 100}},
	Skills: []agentctx.SkillSource{{Path: "skills", FS: fstest.MapFS{
		"sail/SKILL.md": {Data: []byte("---\nname: sail\ndescription: Sail.\n---\n")},
	}}},
}

var effectWorkspace = workspace(strings.Repeat("x", 150))

// C12: every field of a Task and of its Spec has an effect, or is refused with a sentence.
func TestFieldsOfATaskHaveAnEffect(t *testing.T) {
	type job struct{ tasks [2]agent.Task }
	observe := func(t *testing.T, j job) (seen, refused string) {
		p := &probe{cfg: agent.Config{
			Workspace: effectWorkspace,
			Tools:     []agent.Tool{namedTool("read"), namedTool("write")},
			Models:    agent.Models{Valid: func(name string) bool { return name != "no/model" }},
			Rules: policy.Rules{
				Agents: agentsAllowing([]string{"*"}, "coder"),
				Budget: policy.Budget{Tokens: 1e6},
				Senders: []policy.SenderTools{{
					Person: policy.Person{ID: "bob"}, Tools: policy.ToolRules{Deny: []string{"write"}},
				}},
			},
		}}
		p.cfg.Prompts = effectPrompts
		for _, task := range j.tasks {
			if task.Text == "" {
				task.Text = "x"
			}
			p.tasks = append(p.tasks, task)
		}
		return p.observe(t)
	}
	set := func(f func(*agent.Task)) func(*job) { return func(j *job) { f(&j.tasks[0]) } }
	fields := exported[agent.Task]()
	delete(fields, "Again") // it takes a restart, see TestAgain
	check(t, fields, map[string]effect[job]{
		"Text":     {set: set(func(x *agent.Task) { x.Text = "y" })},
		"Label":    {set: set(func(x *agent.Task) { x.Label = "y" })},
		"Name":     {set: set(func(x *agent.Task) { x.Name = "y" })},
		"Key":      {set: func(j *job) { j.tasks[0].Key, j.tasks[1].Key = "k", "k" }},
		"Agent":    {set: set(func(x *agent.Task) { x.Agent = "coder" })},
		"Model":    {set: set(func(x *agent.Task) { x.Model = "a/b" })},
		"Thinking": {set: set(func(x *agent.Task) { x.Thinking = "high" })},
		"Timeout":  {set: set(func(x *agent.Task) { x.Timeout = time.Second })},
		"Spec":     {set: set(func(x *agent.Task) { x.Spec = agentctx.PersonaSpec() })},
		"Tools":    {set: set(func(x *agent.Task) { x.Tools = []string{"read"} })},
		"Budget":   {set: set(func(x *agent.Task) { x.Budget.Tokens = 1 })},
		"Sandbox":  {set: set(func(x *agent.Task) { x.Sandbox = true }), refused: "sandbox"},
		"Strict": {
			base:    set(func(x *agent.Task) { x.Model = "no/model" }),
			set:     set(func(x *agent.Task) { x.Strict = true }),
			refused: "model",
		},
		"Announce": {set: set(func(x *agent.Task) { x.Announce = true })},
		"Thread":   {set: set(func(x *agent.Task) { x.Thread = true }), refused: "threadBindings"},
		"Mode": {
			set:     set(func(x *agent.Task) { x.Mode = agent.TaskModeSession }),
			refused: "Thread is not set",
		},
		"Conversation": {
			set:     set(func(x *agent.Task) { x.Conversation.To = "1" }),
			refused: "Thread is not",
		},
		"Dir": {set: set(func(x *agent.Task) { x.Dir = "x" }), refused: "has no work directory"},
		"Attachments": {set: set(func(x *agent.Task) {
			x.Attachments = attaching("a", "")
		})},
		"AttachAs": {
			base: set(func(x *agent.Task) { x.Attachments = attaching("a", "") }),
			set:  set(func(x *agent.Task) { x.AttachAs = "in" }),
		},
		"Cleanup": {set: set(func(x *agent.Task) { x.Cleanup = agent.CleanupDelete })},
		"Runtime": {
			set: set(func(x *agent.Task) { x.Runtime = "acp" }), refused: "refused by runtime",
		},
		"Stream": {
			set: set(func(x *agent.Task) { x.Stream = true }), refused: "for an external runtime",
		},
		"Milestones": {
			base: set(func(x *agent.Task) { x.Announce, x.Label = true, "told" }),
			set:  set(func(x *agent.Task) { x.Milestones = true }),
		},
		"Senders": {
			set: set(func(x *agent.Task) { x.Senders = []policy.Sender{{ID: "bob"}} }),
		},
		"Update": { // see TestUpdateEveryCrash
			set: set(func(x *agent.Task) { x.Update = true }), refused: "the Config has no Reply",
		},
	}, observe)
	skilled := set(func(x *agent.Task) { x.Spec.Skills = []string{"sail"} })
	check(t, exported[agentctx.Spec](), map[string]effect[job]{
		"Mode":   {set: set(func(x *agent.Task) { x.Spec.Mode = agentctx.ModeNone })},
		"Files":  {set: set(func(x *agent.Task) { x.Spec.Files = []string{"USER.md"} })},
		"Skills": {set: skilled},
		"History": {
			set:     set(func(x *agent.Task) { x.Spec.History = agentctx.HistoryFork }),
			refused: "has no conversation here",
		},
		"Overflow": {set: set(func(x *agent.Task) { x.Spec.Overflow = agentctx.OverflowDrop })},
	}, observe)
}

// C12: every parameter of sessions_spawn has an effect, or is refused with a sentence.
func TestParametersOfSpawnHaveAnEffect(t *testing.T) {
	observe := func(t *testing.T, args map[string]any) (seen, refused string) {
		all := map[string]any{"task": "x"}
		maps.Copy(all, args)
		raw, err := json.Marshal(all)
		require.NoError(t, err)
		p := &probe{args: string(raw), cfg: agent.Config{
			Rules: policy.Rules{Agents: agentsAllowing([]string{"*"}, "coder")},
			// A caller with a loop of its own sees deliveries in place of turns.
			Deliver: func(context.Context, agent.Delivery) error { return nil },
		}}
		return p.observe(t)
	}
	rows := map[string]effect[map[string]any]{}
	for name, c := range map[string]struct {
		value   any
		refused string
	}{
		"task": {"y", ""}, "label": {"y", ""}, "agentId": {"coder", ""}, "agent_id": {"coder", ""},
		"model": {"a/b", ""}, "thinking": {"high", ""}, "runTimeoutSeconds": {1, ""},
		"timeoutSeconds": {1, ""}, "sandbox": {"require", ""},
		"mode": {"session", "thread"}, "thread": {true, ""},
		"cleanup": {"delete", ""}, "runtime": {"acp", ""},
		"context": {"fork", "is not kept here"}, "attachments": {[]string{"a"}, "not an object"},
		"attachAs": {map[string]string{"mountPath": "m"}, "there are none"},
		"cwd":      {"x", "has no work directory"}, "taskName": {"t", ""},
		"streamTo": {"parent", "for an external runtime"}, "resumeSessionId": {"1", "not yours to name"},
		"lightContext": {true, "set by its owner"}, "attach_as": {"m", "there are none"},
		"task_name":         {"t", ""},
		"resume_session_id": {"1", "not yours to name"}, "light_context": {true, "set by its owner"},
	} {
		rows[name] = effect[map[string]any]{refused: c.refused, set: func(args *map[string]any) {
			*args = map[string]any{name: c.value}
		}}
	}
	for name := range strings.FieldsSeq("target transport channel to threadId thread_id replyTo reply_to") {
		rows[name] = effect[map[string]any]{refused: "where to deliver", set: func(args *map[string]any) {
			*args = map[string]any{name: "x"}
		}}
	}
	check(t, agent.SpawnParams(), rows, observe)
}

// namedTool is a tool that does nothing.
func namedTool(name string) agent.Tool {
	return agent.Tool{
		Name: name,
		Call: toolSaying(""),
	}
}
