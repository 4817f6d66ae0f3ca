package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A caller is a turn of a random tree that makes model calls, as TurnInput would.
type caller struct {
	run            *Run
	n              uint32
	used, reserved Budget
	expect         Budget
	calls          []modelCall // under way
	refused        bool
}

type modelCall struct{ expect, use Budget }

// callers is a tree in which random turns make random calls.
type callers struct {
	t      *testing.T
	rand   *rand.Rand
	tree   *Tree
	now    int64
	turns  []*caller
	spent  map[*Run]Budget   // by the sessions that pay for it
	asked  map[string]Budget // by the requests that pay for it
	most   Budget            // of one call
	missed Budget            // what calls have used beyond what was expected of them, under way too
	many   bool              // a turn may have several calls under way
}

func (c *callers) do(cmd Command) (Reply, error) {
	c.now++
	reply, err := c.tree.Decide(cmd, c.now)
	c.tree.Take()
	return reply, err
}

// start spawns a child of a session and begins its turn.
func (c *callers) start(parent *Run, budget policy.Budget) *caller {
	cmd := &Spawn{Parent: parent.Key(), ID: session.NewID(), Task: "x"}
	if c.rand != nil && parent.IsRoot() && c.rand.IntN(3) > 0 {
		cmd.Origin = strconv.Itoa(c.rand.IntN(3))
	}
	cmd.Request.Budget = budget
	reply, err := c.do(cmd)
	if err != nil {
		return nil
	}
	reply, err = c.do(Granted{Run: reply.Run.Key()})
	require.NoError(c.t, err)
	if reply.Run == nil { // a budget forbids the turn
		return nil
	}
	turn := &caller{run: reply.Run, n: reply.Run.Open.N, reserved: reply.Run.Open.Reserve}
	c.turns = append(c.turns, turn)
	return turn
}

// begin has a turn begin a call that is expected to use as much as it does, or less.
func (c *callers) begin(x *caller, honest bool) {
	if x.refused || len(x.calls) > 0 && !c.many {
		return
	}
	use := Budget{
		Tokens: c.rand.Int64N(c.most.Tokens + 1), Micros: c.rand.Int64N(c.most.Micros + 1),
	}
	expect := use
	if !honest {
		expect = Budget{Tokens: use.Tokens / 2, Micros: use.Micros / 3}
	}
	before := x.expect
	_, err := c.do(Hold{
		Run: x.run.Key(), N: x.n, Used: x.used, Expect: before.Add(expect), Before: before,
		Begins: true,
	})
	if err != nil {
		require.ErrorIs(c.t, err, ErrBudget)
		x.refused = true
		return
	}
	x.expect = before.Add(expect)
	x.calls = append(x.calls, modelCall{expect, use})
	c.missed = c.missed.Add(use.Sub(expect))
}

// end ends a call of a turn, which accounts for it as Spend does.
func (c *callers) end(x *caller) {
	if len(x.calls) == 0 {
		return
	}
	i := c.rand.IntN(len(x.calls))
	call := x.calls[i]
	x.calls = slices.Delete(x.calls, i, i+1)
	x.used = x.used.Add(call.use)
	for r := x.run; r != nil; r = r.Parent {
		c.spent[r] = c.spent[r].Add(call.use)
	}
	c.asked[requestOf(x.run)] = c.asked[requestOf(x.run)].Add(call.use)
	if x.used.Tokens >= x.reserved.Tokens || x.used.Micros >= x.reserved.Micros {
		reply, err := c.do(Reserve{Run: x.run.Key(), N: x.n, Used: x.used})
		x.reserved = x.reserved.Add(reply.Grant)
		x.refused = x.refused || err != nil
	}
	x.expect = x.expect.Sub(call.expect)
	_, err := c.do(Hold{Run: x.run.Key(), N: x.n, Used: x.used, Expect: x.expect})
	require.NoError(c.t, err)
}

// finish ends the turn of a run.
func (c *callers) finish(x *caller) {
	for len(x.calls) > 0 {
		c.end(x)
	}
	used := Usage{Input: x.used.Tokens, Cost: float64(x.used.Micros) / 1e6}
	_, err := c.do(&TurnDone{
		Run: x.run.Key(), N: x.n, Answer: &Result{Text: "ok", Usage: used},
	})
	require.NoError(c.t, err)
	c.turns = slices.DeleteFunc(c.turns, func(y *caller) bool { return x == y })
	require.NotContains(c.t, c.tree.holds, x.run)
}

// check fails if a budget is exceeded by more than one call and what was not expected.
func (c *callers) check() {
	within := func(limit, spent Budget, name string) {
		if limit.Tokens > 0 {
			most := limit.Tokens + c.most.Tokens + c.missed.Tokens
			require.LessOrEqual(c.t, spent.Tokens, most, name)
		}
		if limit.Micros > 0 {
			most := limit.Micros + c.most.Micros + c.missed.Micros
			require.LessOrEqual(c.t, spent.Micros, most, name)
		}
	}
	for r, spent := range c.spent {
		within(c.tree.limit(r), spent, r.Key().String())
	}
	for name, spent := range c.asked {
		within(BudgetOf(c.tree.opt.Rules.RequestBudget), spent, "the request "+name)
	}
}

// I9: turns that call models at the same time exceed no budget, of the tree, of a run or of a
// request, by more than one call, and by what their calls use beyond what was expected. As long as
// a budget is not exhausted a call that is alone may begin.
func TestCallsAtTheSameTimeShareABudget(t *testing.T) {
	root := session.Must(session.MainKey("main"))
	for seed := range uint64(raced(300, 30)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			rules := &policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 3, MaxChildren: 50}}
			rules.Budget.Tokens = r.Int64N(20_000) + 1
			if r.IntN(2) == 0 {
				rules.Budget.Cost = float64(r.Int64N(20_000)+1) / 1e6
			}
			if r.IntN(2) == 0 {
				rules.RequestBudget.Tokens = r.Int64N(8_000) + 1
			}
			c := &callers{
				t: t, rand: r, spent: map[*Run]Budget{}, asked: map[string]Budget{},
				many: r.IntN(3) == 0,
				most: Budget{Tokens: 3000, Micros: 3000},
				tree: New(root, &Options{
					Rules: rules, MaxDepth: 3, Chunk: Budget{Tokens: 2000, Micros: 2000},
				}),
			}
			_, err := c.do(&Open{Writer: "w", SessionID: "s"})
			require.NoError(t, err)
			honest := seed%2 == 0
			for range 200 {
				switch n := r.IntN(10); {
				case len(c.turns) == 0 || n == 0 && len(c.turns) < 12:
					parent := c.tree.Root()
					if len(c.turns) > 0 && r.IntN(2) == 0 {
						parent = c.turns[r.IntN(len(c.turns))].run
					}
					var budget policy.Budget
					if r.IntN(2) == 0 {
						budget.Tokens = r.Int64N(8000) + 1
					}
					c.start(parent, budget)
				case n < 5:
					c.begin(c.turns[r.IntN(len(c.turns))], honest)
				case n < 9:
					c.end(c.turns[r.IntN(len(c.turns))])
				default:
					c.finish(c.turns[r.IntN(len(c.turns))])
				}
				c.check()
			}
			for len(c.turns) > 0 {
				c.finish(c.turns[0])
			}
			require.Empty(t, c.tree.holds)
			c.check()
			if c.tree.turnForbiddenBy(c.tree.Root(), "") != "" {
				return
			}
			alone := c.start(c.tree.Root(), policy.Budget{})
			if alone != nil {
				c.begin(alone, true)
				require.False(t, alone.refused, "there is a rest, and the call is alone")
			}
		})
	}
}

// holdCalls returns a tree with a budget of tokens, and turns of children in it.
func holdCalls(t *testing.T, tokens int64, turns int) *callers {
	rules := &policy.Rules{Budget: policy.Budget{Tokens: tokens}}
	c := &callers{t: t, spent: map[*Run]Budget{}, asked: map[string]Budget{}}
	c.tree = New(session.Must(session.MainKey("main")),
		&Options{Rules: rules, MaxDepth: 1, Chunk: Budget{Tokens: 20_000}})
	_, err := c.do(&Open{Writer: "w", SessionID: "s"})
	require.NoError(t, err)
	for range turns {
		require.NotNil(t, c.start(c.tree.Root(), policy.Budget{}))
	}
	return c
}

// hold has a turn begin a call beside those that it makes already.
func (c *callers) hold(turn int, expect int64) error {
	x := c.turns[turn]
	before := x.expect
	_, err := c.do(Hold{
		Run: x.run.Key(), N: x.n, Expect: before.Add(Budget{Tokens: expect}), Before: before,
		Begins: true,
	})
	if err == nil {
		x.expect = before.Add(Budget{Tokens: expect})
	}
	return err
}

// 2.13: what a turn has reserved while it was at a request is that request's to pay, as far as the
// turn uses it, and is nothing that a call for the next request has left.
func TestTurnAtTwoRequests(t *testing.T) {
	rules := &policy.Rules{RequestBudget: policy.Budget{Tokens: 1600}}
	c := &callers{t: t, tree: New(top, &Options{Rules: rules, Chunk: Budget{Tokens: 1000}})}
	must := func(cmd Command) Reply {
		reply, err := c.do(cmd)
		require.NoError(t, err)
		return reply
	}
	must(&Open{Writer: "w", SessionID: "s"})
	must(&Post{To: top, Text: "first"})
	must(Granted{Run: top})
	must(&Spawn{Parent: top, ID: "a", Turn: 1, Task: "x"})
	require.EqualValues(t, 100, c.tree.Root().Open.Reserve.Tokens)
	must(&Post{To: top, Text: "second"})
	must(Take{Run: top, N: 1})
	must(&Spawn{Parent: top, ID: "b", Turn: 1, Task: "x"})
	b := session.Must(top.Child("main", "b"))
	must(Granted{Run: b})
	must(&TurnDone{Run: b, N: 1, Answer: &Result{Usage: Usage{Input: 1600}}})

	_, err := c.do(Hold{Run: top, N: 1, Expect: Budget{Tokens: 101}, Begins: true})
	require.ErrorContains(t, err, "the request's budget of tokens", "what is reserved is the first's")
	must(Hold{Run: top, N: 1, Expect: Budget{Tokens: 100}, Begins: true})
	must(&TurnDone{Run: top, N: 1, Answer: &Result{Usage: Usage{Input: 40}}})
	require.EqualValues(t, 40, c.tree.requests.Of("1").charged.Tokens)
	require.EqualValues(t, 1600, c.tree.requests.Of("2").charged.Tokens)
}

// I9: what is left is one call's alone. A call that does not fit may begin alone, also if its turn
// has reserved the whole rest; calls of one turn that fit together may.
func TestCallsThatDoNotFit(t *testing.T) {
	one := holdCalls(t, 1, 1)
	require.NoError(t, one.hold(0, 50_000), "the turn has the whole budget, which is not spent")
	require.ErrorIs(t, one.hold(0, 1), ErrBudget)

	two := holdCalls(t, 1000, 2)
	require.NoError(t, two.hold(0, 600))
	err := two.hold(1, 600)
	require.ErrorIs(t, err, ErrBudget)
	require.EqualError(t, err, "spawn: the budget is exhausted: the tree's budget of tokens, "+
		"which the model calls under way may use")
	require.NoError(t, two.hold(1, 300), "it fits beside the other")
	_, err = two.do(Hold{Run: two.turns[0].run.Key(), N: 1})
	require.NoError(t, err)
	two.turns[0].expect = Budget{}
	require.NoError(t, two.hold(0, 600), "the first is over")

	several := holdCalls(t, 1000, 1)
	for range 4 {
		require.NoError(t, several.hold(0, 250))
	}
	require.ErrorIs(t, several.hold(0, 250), ErrBudget)

	_, err = several.do(Hold{Run: several.turns[0].run.Key(), N: 2, Begins: true})
	require.ErrorIs(t, err, ErrStale)
	several.finish(several.turns[0])
	require.Empty(t, several.tree.holds)
}
