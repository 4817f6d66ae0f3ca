package tree

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A followUpCase is a session a that has ended, and rules of which some admit another run of it and
// some do not.
type followUpCase struct {
	name    string
	options string // of the scene
	setup   string // commands, one a line
	post    string // the follow-up
	// refuse and admit change rules under which anything goes. admit says as little more than
	// refuse as it can.
	refuse, admit func(*policy.Rules)
	rule          policy.Rule
	asked, limit  string
	path          string
}

// endedChild has a child a of the top-level session that has ended and used 60 tokens.
const endedChild = `spawn top a
grant a
done a used=60`

// endedGrandchild has a session a below p, which is alive.
const endedGrandchild = `spawn top p
grant p
spawn p a turn=1
grant a
done a`

// askedTwice has a message of a person for which the model of the top-level session has spawned
// the session a, and a turn that works for it.
const askedTwice = `post top id=m1 text=go
grant top
spawn top a turn=1 model
grant a
done a used=60`

const subagentsPath = "agents.defaults.subagents."

// listOf returns rules with the agents main and other, of which main may spawn those that allow
// names.
func listOf(mainMode, otherMode policy.SandboxMode, allow ...string) func(*policy.Rules) {
	return func(r *policy.Rules) {
		r.Agents = []policy.Agent{
			{
				ID: "main", Sandbox: mainMode,
				Subagents: policy.Subagents{AllowAgents: append([]string{}, allow...)},
			},
			{ID: "other", Sandbox: otherMode},
		}
	}
}

// countCases are those of the limits that count something.
var countCases = []followUpCase{
	{
		name: "active children", setup: endedChild + "\nspawn top b\nspawn top c", post: "post a run=a2 text=x",
		refuse: func(r *policy.Rules) { r.Subagents.MaxChildren = 2 },
		admit:  func(r *policy.Rules) { r.Subagents.MaxChildren = 3 },
		rule:   policy.RuleChildren, asked: "3", limit: "2", path: subagentsPath + "maxChildrenPerAgent",
	},
	{
		name: "runs of the tree", setup: endedChild + "\npost a run=a2 text=x\ngrant a\ndone a",
		post:   "post a run=a3 text=x",
		refuse: func(r *policy.Rules) { r.Subagents.MaxTreeRuns = 2 },
		admit:  func(r *policy.Rules) { r.Subagents.MaxTreeRuns = 3 },
		rule:   policy.RuleTreeRuns, asked: "3", limit: "2", path: subagentsPath + "maxRunsPerTree",
	},
	{
		name: "blocked completions", options: "caller-run=true",
		setup: endedChild + "\nsettle 1 error=down never", post: "post a run=a2 text=x",
		refuse: func(r *policy.Rules) { r.Subagents.MaxBlocked = 1 },
		admit:  func(r *policy.Rules) { r.Subagents.MaxBlocked = 2 },
		rule:   policy.RuleBlocked, asked: "1", limit: "1", path: subagentsPath + "maxBlocked",
	},
	{
		name: "runs of a request", setup: askedTwice, post: "post a run=a2 from=top text=x model",
		refuse: func(r *policy.Rules) { r.Subagents.MaxRunsPerRequest = 1 },
		admit:  func(r *policy.Rules) { r.Subagents.MaxRunsPerRequest = 2 },
		rule:   policy.RuleRequest, asked: "2", limit: "1", path: subagentsPath + "maxRunsPerRequest",
	},
	{
		name:   "runs of a request that follow up",
		setup:  askedTwice + "\npost a run=a2 from=top text=x model\ngrant a\ndone a",
		post:   "post a run=a3 from=top text=x model",
		refuse: func(r *policy.Rules) { r.Subagents.MaxRunsPerRequest = 2 },
		admit:  func(r *policy.Rules) { r.Subagents.MaxRunsPerRequest = 3 },
		rule:   policy.RuleRequest, asked: "3", limit: "2", path: subagentsPath + "maxRunsPerRequest",
	},
	{
		name: "runs of a set of tools", setup: endedChild + "\nspawn top b model origin=set",
		post:   "post a run=a2 from=top text=x model origin=set",
		refuse: func(r *policy.Rules) { r.Subagents.MaxRunsPerRequest = 1 },
		admit:  func(r *policy.Rules) { r.Subagents.MaxRunsPerRequest = 2 },
		rule:   policy.RuleRequest, asked: "2", limit: "1", path: subagentsPath + "maxRunsPerRequest",
	},
	{
		name: "depth", setup: endedGrandchild, post: "post a run=a2 text=x",
		refuse: func(r *policy.Rules) { r.Subagents.MaxSpawnDepth = 1 },
		admit:  func(r *policy.Rules) { r.Subagents.MaxSpawnDepth = 2 },
		rule:   policy.RuleDepth, asked: "2", limit: "1", path: subagentsPath + "maxSpawnDepth",
	},
}

// spentCases are those of the budgets.
var spentCases = []followUpCase{
	{
		name: "budget of the tree", setup: endedChild, post: "post a run=a2 text=x",
		refuse: func(r *policy.Rules) { r.Budget.Tokens = 60 },
		admit:  func(r *policy.Rules) { r.Budget.Tokens = 61 },
		rule:   policy.RuleBudget, asked: "more tokens", limit: "60", path: "agents.defaults.budget.tokens",
	},
	{
		name: "budget of the request", setup: askedTwice, post: "post a run=a2 from=top text=x model",
		refuse: func(r *policy.Rules) { r.RequestBudget.Tokens = 60 },
		admit:  func(r *policy.Rules) { r.RequestBudget.Tokens = 61 },
		rule:   policy.RuleBudget, asked: "more tokens", limit: "60",
		path: "agents.defaults.requestBudget.tokens",
	},
	{
		name:  "budget of the session",
		setup: strings.Replace(endedChild, "spawn top a", "spawn top a budget=60", 1),
		post:  "post a run=a2 text=x",
		rule:  policy.RuleBudget, asked: "another run",
		limit: "the budget of tokens of a, which is spent", path: "Request.Budget",
	},
	{
		name: "budget of a session above",
		setup: strings.NewReplacer("spawn top p", "spawn top p budget=60", "done a", "done a used=60").
			Replace(endedGrandchild),
		post: "post a run=a2 text=x",
		rule: policy.RuleBudget, asked: "another run",
		limit: "the budget of tokens of p, which is spent", path: "Request.Budget",
	},
}

// agentCases are those of the agent of the session, which is other.
var agentCases = []followUpCase{
	{
		name: "allowed agents", setup: endedChild, post: "post a run=a2 text=x",
		refuse: listOf(policy.SandboxOff, policy.SandboxOff),
		admit:  listOf(policy.SandboxOff, policy.SandboxOff, "other"),
		rule:   policy.RuleAgents, asked: "other", limit: "main", path: "agents.list[main].subagents.allowAgents",
	},
	{
		name: "configured agents", setup: endedChild, post: "post a run=a2 text=x",
		refuse: func(r *policy.Rules) {
			listOf(policy.SandboxOff, policy.SandboxOff, "*")(r)
			r.Agents[1].ID = "else"
		},
		admit: listOf(policy.SandboxOff, policy.SandboxOff, "*"),
		rule:  policy.RuleTarget, asked: "other", limit: "main, else", path: "agents.list",
	},
	{
		name: "sandbox", setup: endedChild, post: "post a run=a2 text=x",
		refuse: listOf(policy.SandboxAll, policy.SandboxOff, "other"),
		admit:  listOf(policy.SandboxAll, policy.SandboxAll, "other"),
		rule:   policy.RuleSandbox, asked: "other without a sandbox",
		limit: "a sandbox, as the caller's: the mode is off", path: "agents.list[other].sandbox.mode",
	},
}

// A follow-up is refused by each rule of this moment that refuses a spawn: with the limit and its
// path, and without a fact. Under rules that allow one more it begins.
func TestFollowUpUnderEachRule(t *testing.T) {
	for _, c := range countCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, "main") })
	}
	for _, c := range spentCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, "main") })
	}
	for _, c := range agentCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, "other") })
	}
}

func (c *followUpCase) check(t *testing.T, agent string) {
	s := c.ended(t, agent)
	c.under(s, c.refuse)
	require.Equal(t, "refused: "+string(c.rule)+": asked "+c.asked+", limit "+c.limit+" ("+c.path+")\n",
		s.run(c.post))
	require.Equal(t, OK, s.tree.Run(s.names["a"]).State)

	if c.admit == nil { // the limit is one of the session itself
		s = c.ended(t, agent, "budget=60", "budget=600")
	} else {
		s = c.ended(t, agent)
	}
	c.under(s, c.admit)
	require.Contains(t, s.run(c.post), "a begins run a")
	require.Equal(t, Queued, s.tree.Run(s.names["a"]).State)
}

// ended plays the setup of a case with the session a of an agent.
func (c *followUpCase) ended(t *testing.T, agent string, replace ...string) *scene {
	s := newScene()
	s.options(split(c.options))
	c.under(s, nil)
	if agent != "main" {
		s.names["a"] = session.Must(top.Child(agent, "a"))
		s.replace = append(s.replace, s.names["a"].String(), "a")
	}
	s.run("open")
	for line := range strings.Lines(strings.NewReplacer(replace...).Replace(c.setup)) {
		line = strings.TrimSpace(line)
		var out string
		if verb, args, _ := strings.Cut(line, " "); verb == "spawn" && split(args).at(1) == "a" {
			cmd := s.spawn(split(args)).(*Spawn)
			cmd.Request.Agent = agent
			out = s.do(cmd)
		} else {
			out = s.run(line)
		}
		require.NotContains(t, out, "refused", line)
		require.NotContains(t, out, "VIOLATION", line)
	}
	require.Equal(t, OK, s.tree.Run(s.names["a"]).State)
	return s
}

// under changes the rules of a scene to ones under which anything goes but for what change says.
func (c *followUpCase) under(s *scene, change func(*policy.Rules)) {
	rules := &policy.Rules{Subagents: policy.Subagents{
		MaxSpawnDepth: 5, MaxChildren: 20, MaxRunsPerRequest: policy.Off,
	}}
	listOf(policy.SandboxOff, policy.SandboxOff, "*")(rules)
	if change != nil {
		change(rules)
	}
	s.opt.RulesNow = func() *policy.Rules { return rules }
	s.tree.Heed()
}

// A follow-up is not another child, so that the limit of those does not matter to it, and what a
// program asks for does not count against the runs of models.
func TestFollowUpBesideALimit(t *testing.T) {
	for _, c := range []followUpCase{
		{
			name: "spawned children", setup: endedGrandchild, post: "post a run=a2 text=x",
			admit: func(r *policy.Rules) { r.Subagents.MaxSpawns = 1 },
		},
		{
			name: "a program asks",
			setup: "post top id=m1 text=go\ngrant top\nspawn top p turn=1 model\ngrant p\n" +
				"spawn p a turn=1\ngrant a\ndone a",
			post:  "post a run=a2 from=p text=x",
			admit: func(r *policy.Rules) { r.Subagents.MaxRunsPerRequest = 1 },
		},
		{
			name:  "the next request",
			setup: askedTwice + "\ndone top\npost top id=m2 text=more\ngrant top",
			post:  "post a run=a2 from=top text=x model",
			admit: func(r *policy.Rules) { r.Subagents.MaxRunsPerRequest = 1 },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.ended(t, "main")
			c.under(s, c.admit)
			require.Contains(t, s.run(c.post), "a begins run a2")
		})
	}
}

// What the program's functions say about a sandbox is asked with the key of the session, and with
// no answer nothing begins.
func TestFollowUpAsksForTheSandbox(t *testing.T) {
	c := followUpCase{setup: endedChild}
	s := c.ended(t, "other")
	c.under(s, func(r *policy.Rules) {
		r.Sandbox.Decide = func(string, session.Key) bool { panic("it is called in a decision") }
	})
	post := s.post(s.names["a"], split("a run=a2 text=x"))
	var q *QuestionsError
	for range 3 { // an answer may lead to another question
		_, err := s.tree.Decide(post, s.now)
		if err == nil {
			break
		}
		require.ErrorAs(t, err, &q)
		facts, _ := s.tree.Take()
		require.Empty(t, facts)
		if post.Answers == nil {
			post.Answers = make(Answers)
		}
		for _, asked := range q.Questions {
			post.Answers[asked] = false
		}
	}
	require.Equal(t, Queued, s.tree.Run(s.names["a"]).State)
	require.NotNil(t, q)
	asked := false
	for of := range post.Answers {
		asked = asked || of.Agent == "other" && of.Key == s.names["a"]
	}
	require.True(t, asked, "the sandbox of the session")
}
