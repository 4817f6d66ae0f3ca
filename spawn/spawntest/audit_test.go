package spawntest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

var topKey = session.Must(session.MainKey("main"))

// recordTree plays a tree with a bit of everything and returns its facts.
func recordTree(t *testing.T) (facts []tree.Fact) {
	synctest.Test(t, func(t *testing.T) {
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		r := (&spawntest.Runner{}).
			On("boss", spawntest.Play{
				spawntest.Spawn(
					spawn.Request{Task: "a", Key: "a", Announce: true},
					spawn.Request{Task: "b", Key: "b", Announce: true},
				),
				spawntest.Yield(spawn.JoinOptions{}),
			}, spawntest.Play{spawntest.Say("both")}).
			On("a", spawntest.Play{spawntest.Delay(2 * time.Second), spawntest.Say("a")}).
			On("b", spawntest.Play{
				spawntest.Delay(4 * time.Second), spawntest.Spend(session.Usage{Input: 10}),
				spawntest.Fail(errors.New("broken")),
			}).
			On("slow", spawntest.Play{spawntest.Delay(time.Hour)})
		s, err := spawn.Open(t.Context(), spawn.Config{
			Store: &session.Store{Journal: log}, Runner: r, Tools: []string{"read", "write"},
			Rules: policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}},
		})
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		_, err = s.Spawn(t.Context(), topKey, topKey, spawn.Request{
			Task:     "boss",
			Key:      "boss",
			Announce: true,
			Policy:   policy.Request{Budget: policy.Budget{Tokens: 1000}},
		})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		slow, err := s.Spawn(
			t.Context(), topKey, topKey, spawn.Request{Task: "slow", Announce: true},
		)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, s.Stop(t.Context(), topKey, slow.Key, "enough"))
		time.Sleep(2 * time.Hour)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
		for e, err := range log.History(topKey) {
			require.NoError(t, err)
			f, err := tree.FactOf(e.Payload)
			require.NoError(t, err)
			facts = append(facts, *f)
		}
	})
	return facts
}

func entriesOf(facts []tree.Fact) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		for i := range facts {
			if !yield(session.Entry{Seq: session.Seq(i + 1), Payload: &facts[i]}, nil) {
				return
			}
		}
	}
}

// factList is a journal that is falsified.
type factList = []tree.Fact

// A play is a tree that is given commands, one batch each, and what it has recorded.
type play struct {
	t     *testing.T
	tree  *tree.Tree
	now   int64
	facts factList
}

// newPlay returns a tree of an hour, whose sessions are archived after another one.
func newPlay(t *testing.T, opt tree.Options) *play {
	opt.Rules, opt.ArchiveAfter, opt.Grace = &policy.Rules{}, time.Hour, time.Second
	p := &play{t: t, tree: tree.New(topKey, &opt), now: int64(time.Hour)}
	p.do(&tree.Open{Writer: "w", SessionID: "s"})
	return p
}

func (p *play) do(commands ...tree.Command) {
	p.t.Helper()
	for _, c := range commands {
		_, err := p.tree.Decide(c, p.now)
		require.NoError(p.t, err)
		batch, _ := p.tree.Take()
		p.facts = append(p.facts, slices.Clone(batch)...)
	}
}

// spawn admits a sub-agent, whose first turn starts.
func (p *play) spawn(id, name string) session.Key {
	p.t.Helper()
	key := session.Must(topKey.Child("main", id))
	p.do(&tree.Spawn{Parent: topKey, ID: id, Task: "work", Name: name}, tree.Granted{Run: key})
	return key
}

// archive has everything that has ended become due for the archive.
func (p *play) archive() {
	p.t.Helper()
	p.now += int64(2 * time.Hour)
	p.do(tree.Tick{})
}

// requireRule requires that the auditor says that facts break a rule.
func requireRule(t *testing.T, facts factList, rule, name string) {
	t.Helper()
	var v *spawntest.Violation
	require.ErrorAs(t, spawntest.Audit(entriesOf(facts)), &v, name)
	require.Equal(t, rule, v.Rule, "%s: %v", name, v)
	require.Positive(t, v.Seq, name)
	require.Contains(t, v.Error(), "spawntest: entry ", name)
}

// nthOf returns where the nth fact of a kind stands; every journal here has it.
func nthOf(list factList, k tree.Kind, n int) int {
	for i := range list {
		if list[i].Kind == k {
			if n--; n == 0 {
				return i
			}
		}
	}
	panic(fmt.Sprintf("the journal has too few facts of kind %v", k))
}

func changeFact(k tree.Kind, n int, f func(*tree.Fact)) func(factList) factList {
	return func(list factList) factList {
		fact := &list[nthOf(list, k, n)]
		var more tree.FactMore
		if fact.FactMore != nil {
			more = *fact.FactMore
		}
		fact.FactMore = &more
		f(fact)
		return list
	}
}

func changeSpec(n int, f func(*tree.Spec, *tree.Grant)) func(factList) factList {
	return changeFact(tree.Admitted, n, func(x *tree.Fact) {
		s, g, more := *x.Spec, *x.Spec.Grant, tree.SpecMore{}
		if s.SpecMore != nil {
			more = *s.SpecMore
		}
		s.SpecMore = &more
		f(&s, &g)
		s.Grant = &g
		x.Spec = &s
	})
}

func removeFact(k tree.Kind, n int) func(factList) factList {
	return func(list factList) factList {
		i := nthOf(list, k, n)
		return slices.Delete(list, i, i+1)
	}
}

func repeatFact(k tree.Kind, n int) func(factList) factList {
	return func(list factList) factList {
		i := nthOf(list, k, n)
		return slices.Insert(list, i+1, list[i])
	}
}

// A journal that is falsified in one place breaks the rule that the case names.
func TestAuditNamesTheRuleThatIsBroken(t *testing.T) {
	good := recordTree(t)
	report, err := spawntest.Inspect(entriesOf(good))
	require.NoError(t, err)
	require.NoError(t, report.AtRest())
	require.Equal(t, 4, report.Runs)
	require.Equal(t, 4, report.Consumed)

	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"an epoch twice", "epoch", repeatFact(tree.Opened, 1)},
		{"a turn over another owner", "epoch", func(list factList) factList {
			i := nthOf(list, tree.TurnStarted, 1)
			return slices.Insert(list, i+1, tree.Fact{Kind: tree.Opened, Num: 9})
		}},
		{"a run that was not admitted", "known runs", removeFact(tree.Admitted, 1)},
		{"a run twice", "spawn key", repeatFact(tree.Admitted, 1)},
		{"a spawn key twice", "spawn key", changeSpec(3, func(s *tree.Spec, _ *tree.Grant) { s.SpecMore.SpawnKey = "a" })},
		{"more tools", "tools", changeSpec(2, func(_ *tree.Spec, g *tree.Grant) {
			g.Tools = append(slices.Clone(g.Tools), "shell")
		})},
		{"more tools to hand down", "tools", changeSpec(2, func(_ *tree.Spec, g *tree.Grant) {
			g.Delegable = append(slices.Clone(g.Delegable), "shell")
		})},
		{"a weaker sandbox", "sandbox", changeSpec(1, func(_ *tree.Spec, g *tree.Grant) { g.Sandboxed = true })},
		{"another model", "model", changeSpec(1, func(_ *tree.Spec, g *tree.Grant) { g.Asked, g.Model = "x/a", "x/b" })},
		{"a depth of its own", "depth", changeSpec(2, func(_ *tree.Spec, g *tree.Grant) { g.Depth = 1 })},
		{"skills taken twice", "skills", func(list factList) factList {
			i := nthOf(list, tree.TurnStarted, 1)
			taken := list[i]
			taken.Kind, taken.FactMore = tree.SkillsTaken, &tree.FactMore{Skills: &tree.SkillSet{}}
			return slices.Insert(list, i+1, taken, taken)
		}},
		{"inputs of a sub-agent set aside", "set aside", func(list factList) factList {
			i := nthOf(list, tree.Admitted, 1)
			aside := tree.Fact{Kind: tree.SetAside, At: list[i].At, Run: list[i].Spec.Key}
			return slices.Insert(list, i+1, aside)
		}},
		{"no task", "admission", changeSpec(1, func(s *tree.Spec, _ *tree.Grant) { s.Task = "" })},
		{"a turn twice", "one turn at a time", repeatFact(tree.TurnStarted, 1)},
		{"a turn skipped", "turns", changeFact(tree.TurnStarted, 1, func(f *tree.Fact) { f.N = 2 })},
		{"a turn's end twice", "one turn at a time", repeatFact(tree.TurnEnded, 1)},
		{"a turn that reads what is not there", "ordinals", changeFact(tree.TurnStarted, 1, func(f *tree.Fact) { f.Ord = 9 })},
		{"a turn that reserves too much", "budget", changeFact(tree.TurnStarted, 1, func(f *tree.Fact) {
			f.Own().Budget.Tokens = 1001
		})},
		{"a sub-agent that speaks to people", "replies", changeFact(tree.TurnEnded, 1, func(f *tree.Fact) { f.Flags |= tree.FlagReply })},
		{"an end without its turn's", "end", removeFact(tree.TurnEnded, 2)},
		{"an end twice", "one end", repeatFact(tree.RunEnded, 1)},
		{"an end for another cause", "first cause", changeFact(tree.RunEnded, 2, func(f *tree.Fact) { f.State = tree.TimedOut })},
		{"an end for no cause", "first cause", removeFact(tree.StopRequested, 1)},
		{"a second cause", "first cause", repeatFact(tree.StopRequested, 1)},
		{"an end that is not told", "announcements", changeFact(tree.RunEnded, 1, func(f *tree.Fact) { f.Flags &^= tree.FlagTell })},
		{"an end before a child's", "live descendants", func(list factList) factList {
			boss := list[nthOf(list, tree.Admitted, 1)].Run
			end := tree.Fact{Kind: tree.RunEnded, Run: boss, State: tree.OK, Flags: tree.FlagTell}
			i := slices.IndexFunc(list, func(f tree.Fact) bool {
				return f.Kind == tree.TurnEnded && f.Run == boss
			})
			return slices.Insert(list, i+1, end)
		}},
		{"a completion that no turn read", "inputs", func(list factList) factList {
			boss := list[nthOf(list, tree.Admitted, 1)].Run
			return slices.DeleteFunc(list, func(f tree.Fact) bool {
				return f.Run == boss && f.N == 2 &&
					(f.Kind == tree.TurnStarted || f.Kind == tree.TurnEnded)
			})
		}},
		{"an archive of what lives", "archive", func(list factList) factList {
			boss := list[nthOf(list, tree.Admitted, 1)].Run
			i := nthOf(list, tree.Admitted, 1)
			return slices.Insert(list, i+1, tree.Fact{Kind: tree.Archived, Run: boss})
		}},
		{"a spawn from what is to end", "admission", func(list factList) factList {
			i := nthOf(list, tree.StopRequested, 2)
			s := *list[nthOf(list, tree.Admitted, 1)].Spec
			g := *s.Grant
			s.Grant, s.SpecMore.SpawnKey = &g, ""
			s.Parent, s.Key = list[i].Run, session.Must(list[i].Run.Child("main", "x"))
			s.Depth = 2
			return slices.Insert(list, i+1, tree.Fact{Kind: tree.Admitted, Run: s.Key, Spec: &s})
		}},
		{"a delivery of nothing", "exactly once", func(list factList) factList {
			return append(list, tree.Fact{Kind: tree.Delivered, Ord: 3})
		}},
		{"what was not sent of nothing", "exactly once", func(list factList) factList {
			return append(list, tree.Fact{Kind: tree.Unsent, Ord: 3})
		}},
		{"what was sent is unsent", "outbox", func(list factList) factList {
			end := slices.IndexFunc(list, func(f tree.Fact) bool {
				return f.Kind == tree.TurnEnded && f.Run == topKey
			})
			list[end].Flags |= tree.FlagReply
			return slices.Insert(list, end+1,
				tree.Fact{Kind: tree.Deferred, Ord: 1}, tree.Fact{Kind: tree.Unsent, Ord: 1})
		}},
		{"usage of models that does not add up", "usage", changeFact(tree.TurnEnded, 1, func(f *tree.Fact) {
			f.Answer = new(tree.Result)
			f.Answer.Own().ByModel = []tree.ModelUsage{{Usage: tree.Usage{Input: 1}}}
		})},
		{"a message out of order", "ordinals", func(list factList) factList {
			posted := tree.Fact{Kind: tree.Posted, Run: topKey, Ord: 99, Class: tree.User}
			return append(list, posted)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := c.falsify(slices.Clone(good))
			requireRule(t, bad, c.rule, c.name)
		})
	}
}

// A snapshot anywhere in a journal has to say what came before it, and is a beginning by itself.
func TestAuditOfSnapshots(t *testing.T) {
	good := recordTree(t)
	opt := &tree.Options{Rules: &policy.Rules{}, ArchiveAfter: time.Hour}
	for n := range good {
		live := tree.New(topKey, opt)
		for i := range good[:n+1] {
			require.NoError(t, live.Replay(&good[i]))
		}
		snap := tree.Fact{Kind: tree.Snapshot, FactMore: &tree.FactMore{Image: live.Image()}}
		rest := good[n+1:]
		within := append(append(slices.Clone(good[:n+1]), snap), rest...)
		require.NoError(t, spawntest.Audit(entriesOf(within)), "after %d facts", n+1)
		report, err := spawntest.Inspect(entriesOf(append([]tree.Fact{snap}, rest...)))
		require.NoError(t, err, "from %d facts on", n+1)
		require.NoError(t, report.AtRest())

		for name, falsify := range map[string]func(m *tree.Image){
			"total": func(m *tree.Image) { m.Total++ },
			"epoch": func(m *tree.Image) { m.Epoch++ },
			"turns": func(m *tree.Image) { m.Runs[0].Turns++ },
			"state": func(m *tree.Image) { m.Runs[0].State = tree.Queued },
			"usage": func(m *tree.Image) {
				row := tree.UsageRow{Usage: tree.Usage{Input: 1}}
				m.Runs[0].Ledger = &tree.Ledger{Below: []tree.UsageSeries{
					{Quarters: []tree.UsageRow{row}},
				}}
			},
			"outbox": func(m *tree.Image) {
				m.Outbox = append(m.Outbox, tree.Entry{Ord: 5, Reply: true})
			},
			"runs": func(m *tree.Image) {
				child := session.Must(topKey.Child("main", "zz"))
				spec := &tree.Spec{Key: child, Grant: &tree.Grant{}}
				m.Runs = append(m.Runs, tree.RunState{Spec: spec})
			},
		} {
			bad := tree.Fact{Kind: tree.Snapshot, FactMore: &tree.FactMore{Image: live.Image()}}
			falsify(bad.Image())
			err := spawntest.Audit(entriesOf(append(slices.Clone(good[:n+1]), bad)))
			var v *spawntest.Violation
			require.ErrorAs(t, err, &v, name)
			require.Equal(t, "snapshot", v.Rule)
		}
	}
}

func TestAuditPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	require.ErrorIs(
		t,
		spawntest.Audit(
			func(yield func(session.Entry, error) bool) { yield(session.Entry{}, broken) },
		),
		broken,
	)
	var version interface{ Error() string }
	require.ErrorAs(t, spawntest.Audit(func(yield func(session.Entry, error) bool) {
		yield(session.Entry{Payload: session.Raw(`{"v":9}`)}, nil)
	}), &version)
}

// What a turn says before its end, and which messages replies answer, is audited as well.
func TestAuditOfWhatIsSaid(t *testing.T) {
	live := tree.New(topKey, &tree.Options{Rules: &policy.Rules{}, Replies: true})
	say := func(num uint32, id string) tree.Command {
		return tree.InTurn{Run: topKey, N: 1, Cmd: &tree.Say{
			Run: topKey, N: 1, Num: num, ID: id, Answer: tree.Result{Reply: "x"},
		}}
	}
	decide := func(commands ...tree.Command) {
		for _, c := range commands {
			_, err := live.Decide(c, 1)
			require.NoError(t, err)
		}
	}
	decide(
		&tree.Open{SessionID: "s"}, &tree.Post{To: topKey, ID: "1", Text: "x"},
		&tree.Post{To: topKey, ID: "2", Text: "x"}, tree.Granted{Run: topKey},
		say(1, ""), say(0, "x"), tree.Compact{},
		&tree.TurnDone{Run: topKey, N: 1, Answer: &tree.Result{Reply: "x"}}, tree.Compact{},
	)
	facts, _ := live.Take()
	require.NoError(t, spawntest.Audit(entriesOf(facts)))
	changeImage := func(n int, f func(m *tree.Image)) func(factList) factList {
		return changeFact(tree.Snapshot, n, func(x *tree.Fact) {
			m := *x.Image()
			m.Runs, m.Outbox = slices.Clone(m.Runs), slices.Clone(m.Outbox)
			f(&m)
			x.Own().Image = &m
		})
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"said twice", "said once", repeatFact(tree.Said, 1)},
		{"said twice under an ID", "said once", repeatFact(tree.Said, 2)},
		{"said without a name", "said once", changeFact(tree.Said, 1, func(f *tree.Fact) { f.Ord = 0 })},
		{"said after the turn", "one turn at a time", func(list factList) factList {
			return append(list, list[nthOf(list, tree.Said, 1)])
		}},
		{"what was said is forgotten", "snapshot", changeImage(1, func(m *tree.Image) { m.Runs[0].Said = nil })},
		{"what was said is kept", "snapshot", changeImage(2, func(m *tree.Image) {
			m.Runs[0].Said = []tree.Saying{{Num: 1}}
		})},
		{"a reply to what was not read", "replies", changeImage(2, func(m *tree.Image) {
			m.Outbox[0].InReplyTo = []string{"1"}
		})},
		{"another first session", "snapshot", changeImage(2, func(m *tree.Image) { m.FirstSession = "t" })},
	} {
		requireRule(t, c.falsify(slices.Clone(facts)), c.rule, c.name)
	}
}

// Resets and compactions are audited.
func TestAuditOfConversations(t *testing.T) {
	opt := &tree.Options{Rules: &policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}}}
	live := tree.New(topKey, opt)
	decide := func(commands ...tree.Command) {
		for _, c := range commands {
			_, err := live.Decide(c, 1)
			require.NoError(t, err)
		}
	}
	turn := func(n uint32, pos uint64) []tree.Command {
		return []tree.Command{
			&tree.Post{To: topKey, Text: "x"},
			tree.Granted{Run: topKey},
			&tree.TurnDone{Run: topKey, N: n, Answer: &tree.Result{Text: "x"}, Pos: pos},
		}
	}
	decide(&tree.Open{SessionID: "s"})
	decide(turn(1, 5)...)
	decide(tree.Condense{Run: topKey, ID: "c"}, tree.Granted{Run: topKey},
		&tree.TurnDone{Run: topKey, N: 2, Compacted: 3, Pos: 6})
	decide(tree.Restart{Run: topKey, SessionID: "t"}, tree.Compact{},
		tree.ArchiveDone{Run: topKey, Session: "s"})
	decide(turn(3, 2)...)
	decide(tree.Compact{})
	facts, _ := live.Take()
	require.NoError(t, spawntest.Audit(entriesOf(facts)))
	change := func(f func(m *tree.RunState)) func(x *tree.Fact) {
		return func(x *tree.Fact) {
			m := *x.Image()
			m.Runs = slices.Clone(m.Runs)
			f(&m.Runs[0])
			x.Own().Image = &m
		}
	}
	child := session.Must(topKey.Child("main", "a"))
	spec := &tree.Spec{
		ID: "a", SessionID: "a", Key: child, Parent: topKey, Task: "x", Created: 1,
		Grant: &tree.Grant{Depth: 1},
	}
	before := func(k tree.Kind, n int, what tree.Fact) func(factList) factList {
		return func(list factList) factList {
			return slices.Insert(list, nthOf(list, k, n), what)
		}
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"a compaction that reads", "compaction", before(tree.TurnEnded, 2,
			tree.Fact{Kind: tree.Taken, Run: topKey, N: 2, Ord: 1})},
		{
			"a compaction that ends as a turn", "compaction",
			changeFact(tree.TurnEnded, 2, func(f *tree.Fact) { f.Flags = 0 }),
		},
		{
			"a turn that ends as a compaction", "compaction",
			changeFact(tree.TurnEnded, 1, func(f *tree.Fact) { f.Flags = tree.FlagCompact }),
		},
		{
			"a compaction that speaks", "compaction",
			changeFact(tree.TurnEnded, 2, func(f *tree.Fact) { f.Flags |= tree.FlagReply }),
		},
		{
			"a position goes back", "position",
			changeFact(tree.TurnEnded, 2, func(f *tree.Fact) { f.Num = 4 }),
		},
		{"a reset during a turn", "reset", before(tree.TurnEnded, 1,
			tree.Fact{Kind: tree.Reset, Run: topKey, FactMore: &tree.FactMore{ID: "u"}, Text: "s"})},
		{
			"a reset while a child lives", "reset",
			before(tree.Reset, 1, tree.Fact{Kind: tree.Admitted, Run: child, Spec: spec}),
		},
		{
			"a reset of another session id", "reset",
			changeFact(tree.Reset, 1, func(f *tree.Fact) { f.Text = "x" }),
		},
		{
			"a session id that it had", "reset",
			changeFact(tree.Reset, 1, func(f *tree.Fact) { f.Own().ID = "s" }),
		},
		{"put away twice", "put away", repeatFact(tree.PutAway, 1)},
		{"put away before the reset", "put away", before(tree.Reset, 1,
			tree.Fact{Kind: tree.PutAway, Run: topKey, FactMore: &tree.FactMore{ID: "s"}})},
		{"never put away", "snapshot", removeFact(tree.PutAway, 1)},
		{
			"what is to be put away is forgotten", "snapshot",
			changeFact(tree.Snapshot, 1, change(func(s *tree.RunState) { s.Former = nil })),
		},
		{
			"a snapshot goes back", "snapshot",
			changeFact(tree.Snapshot, 2, change(func(s *tree.RunState) { s.Pos = 1 })),
		},
	} {
		requireRule(t, c.falsify(slices.Clone(facts)), c.rule, c.name)
	}
}

// So are the milestones of runs, and what their requesters find of them.
func TestAuditOfMilestones(t *testing.T) {
	live := tree.New(topKey, &tree.Options{Rules: &policy.Rules{}})
	child := session.Must(topKey.Child("main", "a"))
	report := func(run session.Key) tree.Command {
		return tree.InTurn{Run: run, N: 1, Cmd: &tree.Report{Run: run, N: 1, Text: "x"}}
	}
	for _, c := range []tree.Command{
		&tree.Open{SessionID: "s"},
		&tree.Spawn{Parent: topKey, ID: "a", Task: "x", Milestones: true},
		tree.Granted{Run: child},
		report(child), report(child),
		tree.Compact{},
		&tree.Post{To: topKey, ID: "1", Text: "x"},
		tree.Granted{Run: topKey},
		report(topKey), report(child),
		tree.Compact{},
	} {
		_, err := live.Decide(c, 1)
		require.NoError(t, err)
	}
	facts, _ := live.Take()
	require.NoError(t, spawntest.Audit(entriesOf(facts)))
	change := func(n int, f func(*tree.Fact)) func(factList) factList {
		return changeFact(tree.Reported, n, f)
	}
	for _, c := range []struct {
		name, rule string
		falsify    func(factList) factList
	}{
		{"a milestone twice", "milestones", repeatFact(tree.Reported, 1)},
		{"a milestone is left out", "milestones", change(2, func(f *tree.Fact) { f.Ord++ })},
		{"its requester is not told", "snapshot", change(1, func(f *tree.Fact) { f.Flags = 0 })},
		{"a top-level session tells", "milestones", change(3, func(f *tree.Fact) {
			f.Flags = tree.FlagTell
		})},
		{"a milestone after the turn", "one turn at a time", change(1, func(f *tree.Fact) { f.N = 2 })},
		{"a milestone is forgotten", "snapshot", changeFact(tree.Snapshot, 1, func(f *tree.Fact) {
			m := *f.Image()
			m.Runs = slices.Clone(m.Runs)
			m.Runs[0].Inbox = nil
			f.Own().Image = &m
		})},
		{"the count is forgotten", "snapshot", changeFact(tree.Snapshot, 2, func(f *tree.Fact) {
			m := *f.Image()
			m.Runs = slices.Clone(m.Runs)
			m.Runs[1].Milestones = 0
			f.Own().Image = &m
		})},
	} {
		requireRule(t, c.falsify(slices.Clone(facts)), c.rule, c.name)
	}
}
