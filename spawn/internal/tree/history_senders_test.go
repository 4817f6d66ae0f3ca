package tree

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// ownersTool is what owners alone may use in histories.
const ownersTool = "cron"

// A strangers is an auditor of its own: it follows through the facts what people who are not owners
// have said, as far as that has come, and knows nothing of the Senders that the tree keeps.
type strangers struct {
	said map[session.Key]map[uint32]bool // inputs
	runs map[runName]bool                // runs that have read something of a stranger
	turn map[session.Key]bool            // the last turn of a top-level session has
	wait map[session.Key]bool            // the turn that waits has
}

func newStrangers() strangers {
	return strangers{
		said: make(map[session.Key]map[uint32]bool), runs: make(map[runName]bool),
		turn: make(map[session.Key]bool), wait: make(map[session.Key]bool),
	}
}

// speakers returns who says something in a history: no one, an owner, a stranger, or both.
func speakers(how byte) []policy.Sender {
	ann := policy.Sender{ID: "ann", Channel: "irc", Peer: "room"}
	bob := policy.Sender{ID: "bob", Channel: "irc", Peer: "room"}
	return [][]policy.Sender{nil, {ann}, {bob}, {ann, bob}}[how%4]
}

func hasStranger(list []policy.Sender) bool {
	return slices.ContainsFunc(list, func(s policy.Sender) bool { return s.ID != "ann" })
}

// checkSenders checks that no one has what those may not use who have come to speak to it.
func (d *driver) checkSenders(c Command, facts []Fact) error {
	x := &d.strangers
	for i := range facts {
		f := &facts[i]
		switch f.Kind { // the others are not about who speaks
		case Admitted:
			x.runs[runName{f.Run, ""}] = hasStranger(f.Spec.Senders())
			s, _ := c.(*Spawn)
			above := x.turn[f.Spec.Parent] && s.Turn > 0
			if p := d.tree.Run(f.Spec.Parent); !p.IsRoot() {
				above = x.runs[runName{p.Key(), p.runName()}]
			}
			bound := above || hasStranger(s.Senders)
			if bound != x.runs[runName{f.Run, ""}] {
				return fmt.Errorf("%s is spawned for a stranger: %v, recorded %v", f.Run, bound,
					f.Spec.Senders())
			}
			if bound && slices.Contains(slices.Concat(f.Spec.Tools, f.Spec.Delegable), ownersTool) {
				return fmt.Errorf("%s is granted what is for owners alone", f.Run)
			}
		case Posted, Restarted:
			if x.said[f.Run] == nil {
				x.said[f.Run] = make(map[uint32]bool)
			}
			said := hasStranger(f.Senders())
			if f.Kind == Posted && f.Class == User && len(f.Senders()) == 0 && f.sender().IsZero() {
				bound := f.Flags&FlagThread != 0 // the messages of a history do not say who it is
				said = bound || d.tree.Run(f.Run).IsRoot()
			}
			if f.Kind == Restarted {
				bound := x.ever(f.Run) || hasStranger(postedBy(c).Senders)
				if said != bound {
					return fmt.Errorf("%s is followed up for a stranger: %v, recorded %v", f.Run,
						bound, f.Senders())
				}
				x.runs[runName{f.Run, f.Begin().ID}] = bound
			}
			x.said[f.Run][f.Ord] = said
		case TurnStarted, Taken:
			d.strangers.read(d.tree, f)
		case Heard:
			if r := d.tree.Run(f.Run); r.IsRoot() {
				x.turn[f.Run] = x.turn[f.Run] || hasStranger(f.Senders())
			} else {
				name := runName{f.Run, r.runName()}
				x.runs[name] = x.runs[name] || hasStranger(f.Senders())
			}
		case Sent:
			if f.N == 0 {
				break
			}
			bound := x.turn[f.Run]
			if r := d.tree.Run(f.Run); !r.IsRoot() {
				bound = x.runs[runName{f.Run, r.runName()}]
			}
			if bound && !hasStranger(f.Senders()) {
				return fmt.Errorf("%s writes for a stranger, recorded %v", f.Run, f.Senders())
			}
		case SetAside: // who cancels the turn that would have ended the wait takes it back
			x.wait[f.Run] = x.wait[f.Run] && d.tree.Run(f.Run).Join != nil
		case TurnEnded:
			x.wait[f.Run] = f.Join() != nil && x.turn[f.Run] || f.Join() == nil && x.wait[f.Run]
		}
	}
	return d.checkRights()
}

// ever reports whether a run of a session has read something of a stranger.
func (x *strangers) ever(k session.Key) bool {
	for name, bound := range x.runs {
		if name.key == k && bound {
			return true
		}
	}
	return false
}

// postedBy returns the message that a command posts, the zero Post if it posts none.
func postedBy(c Command) Post {
	if in, ok := c.(InTurn); ok {
		c = in.Cmd
	}
	if p, ok := c.(*Post); ok {
		return *p
	}
	return Post{}
}

// read notes what a turn reads.
func (x *strangers) read(t *Tree, f *Fact) {
	r := t.Run(f.Run)
	if r == nil || r.Open == nil || r.Open.Compact || r.Open.Step {
		return
	}
	name := runName{r.Key(), r.runName()}
	was := x.runs[name]
	if r.IsRoot() {
		was = f.Kind == Taken && x.turn[r.Key()] || r.woke != nil && x.wait[r.Key()] ||
			(r.Retry || len(r.Crashes) > 0) && x.turn[r.Key()]
	}
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Ord <= r.Consumed || in.Ord > r.Open.Through {
			continue
		}
		was = was || x.said[r.Key()][in.Ord]
		if in.Class == Completion || in.Class == Milestone {
			was = was || x.runs[runName{in.From, in.RunID}]
		}
	}
	if r.IsRoot() {
		x.turn[r.Key()] = was
	} else {
		x.runs[name] = was
	}
}

// checkRights checks each session of the tree against what has come to it.
func (d *driver) checkRights() (err error) {
	d.tree.Walk(func(r *Run) {
		bound := d.strangers.runs[runName{r.Key(), r.runName()}]
		if r.IsRoot() {
			bound = r.Open != nil && d.strangers.turn[r.Key()]
		}
		has := slices.Contains(d.tree.Rights(r).Tools, ownersTool)
		switch {
		case err != nil:
		case bound && (has || slices.Contains(d.tree.Rights(r).Delegable, ownersTool)):
			err = fmt.Errorf("%s works for a stranger and has %q: %v", r.Key(), ownersTool, r.Senders())
		case !bound && !r.IsRoot() && hasStranger(r.Senders()):
			err = fmt.Errorf("%s is kept to strangers who have said nothing: %v", r.Key(), r.Senders())
		case bound || r.IsRoot() && r.Open == nil:
		case slices.Contains(d.tree.Authority(r).Tools, ownersTool) != has:
			err = fmt.Errorf("%s works for no stranger and lacks %q: %v", r.Key(), ownersTool, r.Senders())
		}
	})
	return err
}

// ownedScene returns a scene of a bot that ann owns, with a tool for owners and one for everyone.
func ownedScene() *scene {
	s := newScene()
	s.opt.Rules.Owners = []policy.Person{{ID: "ann"}}
	s.opt.Rules.DefaultDeny, s.opt.Tools = []string{}, []string{ownersTool, "read"}
	s.opt.Rules.Subagents.MaxSpawnDepth = 2
	return s
}

// A turn works for those whom it reads, a run for those whom it has ever read, and what comes back
// of a run for those for whom the run has worked.
func TestSendersComeBack(t *testing.T) {
	ann, bob, s := speakers(1), speakers(2), ownedScene()
	do := func(c Command) {
		require.NotContains(t, s.do(c), "VIOLATION", "%T", c)
	}
	tools := func(k session.Key) []string { return s.tree.Rights(s.tree.Run(k)).Tools }
	all, few := []string{ownersTool, "read"}, []string{"read"}

	do(&Open{Writer: "w", SessionID: "s"})
	do(&Post{To: top, Text: "mine", Senders: ann})
	do(Granted{Run: top})
	require.Equal(t, all, tools(top))
	do(&Post{To: top, Text: "and mine", Senders: bob})
	require.Equal(t, all, tools(top), "it is not read yet")
	do(Take{Run: top, N: 1})
	require.Equal(t, few, tools(top))
	do(&Spawn{Parent: top, ID: "00000001-0000-4000-8000-000000000000", Turn: 1, Task: "x", Announce: true})
	child := s.tree.Sessions()[0]
	require.Equal(t, few, s.tree.Run(child).Spec.Tools)
	do(&TurnDone{Run: top, N: 1, Answer: &Result{Text: "a"}})

	do(&Post{To: top, Text: "go on", Senders: ann})
	do(Granted{Run: top})
	require.Equal(t, all, tools(top), "an owner alone speaks")
	do(&TurnDone{Run: top, N: 2, Answer: &Result{Text: "b"}})

	do(Granted{Run: child})
	do(&TurnDone{Run: child, N: 1, Answer: &Result{Text: "c"}})
	do(Granted{Run: top})
	require.Equal(t, few, tools(top), "it reads what came of a stranger's wish")
	require.True(t, hasStranger(s.tree.Root().Senders()))

	do(&TurnDone{Run: top, N: 3, Answer: &Result{Text: "d"}})
	do(&Post{To: top, Text: "a job is done", From: child})
	do(Granted{Run: top})
	require.Equal(t, all, tools(top), "no person says it")
	do(&TurnDone{Run: top, N: 4, Answer: &Result{Text: "e"}})
}

// A turn works for those whose words it is about to read from the call of Hear on: what it spawns,
// the wait after it, and the same turn after a crash. The next turn of an owner is free.
func TestSendersOfWhatIsHeard(t *testing.T) {
	ann, bob, s := speakers(1), speakers(2), ownedScene()
	do := func(c Command) {
		t.Helper()
		require.NotContains(t, s.do(c), "VIOLATION", "%T", c)
	}
	id := func(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }
	tools := func(k session.Key) []string { return s.tree.Rights(s.tree.Run(k)).Tools }
	all, few := []string{ownersTool, "read"}, []string{"read"}
	hear := func(n uint32, of []policy.Sender) {
		do(InTurn{Run: top, N: n, Cmd: Hear{Senders: of}})
	}
	do(&Open{Writer: "w", SessionID: "s"})
	do(&Post{To: top, Text: "ask it", Senders: ann})
	do(Granted{Run: top})
	do(&Spawn{Parent: top, ID: id(1), Turn: 1, Task: "before", Announce: true})
	before := s.tree.Sessions()[0]
	seen := len(s.log.lines)
	hear(1, ann)
	require.Len(t, s.log.lines, seen, "it works for ann already")
	require.Equal(t, all, tools(top))
	hear(1, bob)
	hear(1, bob)
	require.Len(t, s.log.lines, seen+1)
	require.Equal(t, few, tools(top))
	require.Equal(t, all, tools(before), "what was spawned before reads nothing of it")
	do(&Spawn{Parent: top, ID: id(2), Turn: 1, Task: "after"})
	after := s.tree.Sessions()[1]
	require.Equal(t, few, s.tree.Run(after).Spec.Tools)

	require.Empty(t, s.run("crash"))
	do(&Open{Writer: "v"})
	do(Granted{Run: top})
	require.Equal(t, few, tools(top), "the turn is repeated after a crash")
	do(&TurnDone{Run: top, N: 2, Answer: &Result{Text: "a", Reply: "a"}})
	do(&Post{To: top, Text: "now mine", Senders: ann})
	do(Granted{Run: top})
	require.Equal(t, all, tools(top), "a later turn of an owner alone")
}

// A follow-up works for its own people and for all for whom the session has worked, and so does the
// turn over its end, whatever lies between: a run of the program, a takeover, an image, a revival.
func TestSendersOfFollowUps(t *testing.T) {
	ann, bob := speakers(1), speakers(2)
	both := speakers(3)
	s := newScene()
	s.opt.Rules.Owners = []policy.Person{{ID: "ann"}}
	s.opt.Rules.DefaultDeny, s.opt.Tools = []string{}, []string{ownersTool, "read"}
	do := func(c Command) {
		require.NotContains(t, s.do(c), "VIOLATION", "%T", c)
	}
	id := func(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }
	all, few := []string{ownersTool, "read"}, []string{"read"}
	tools := func(k session.Key) []string { return s.tree.Rights(s.tree.Run(k)).Tools }
	do(&Open{Writer: "w", SessionID: "s"})
	do(&Spawn{Parent: top, ID: id(1), Task: "x", Announce: true, Senders: ann})
	child := s.tree.Sessions()[0]
	run := func(n int, after []policy.Sender) {
		do(Granted{Run: child})
		do(&TurnDone{Run: child, N: uint32(n), Answer: &Result{Text: "c"}})
		require.ElementsMatch(t, after, s.tree.Run(child).Senders())
		do(Granted{Run: top})
		require.ElementsMatch(t, after, s.tree.Root().Senders(), "the turn over its end")
		want := few
		if !hasStranger(after) {
			want = all
		}
		require.Equal(t, want, tools(top))
		do(&TurnDone{Run: top, N: uint32(n), Answer: &Result{Text: "t"}})
	}
	run(1, ann)
	for n, from := range [][]policy.Sender{ann, bob, ann, nil, ann} {
		do(&Post{To: child, Text: "more", RunID: id(10 + n), Announce: true, Senders: from})
		do(&Open{Writer: fmt.Sprint("w", n)})
		after := ann
		if n > 0 {
			after = both
		}
		run(n+2, after)
	}
	require.Len(t, s.tree.Run(child).Past, 2, "what is between the first and the last is forgotten")
	do(&Post{To: top, Text: "go on", Senders: ann})
	do(Granted{Run: top})
	require.Equal(t, all, tools(top), "a top-level session is not bound for ever")
}

// More people than are kept, one in each run, are one who is not an owner.
func TestSendersOfManyFollowUps(t *testing.T) {
	s := newScene()
	s.opt.Rules.Owners = []policy.Person{{ID: "ann"}}
	do := func(c Command) {
		require.NotContains(t, s.do(c), "VIOLATION", "%T", c)
	}
	id := func(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }
	do(&Open{Writer: "w", SessionID: "s"})
	do(&Spawn{Parent: top, ID: id(1), Task: "x"})
	child := s.tree.Sessions()[0]
	do(Granted{Run: child})
	do(&TurnDone{Run: child, N: 1, Answer: &Result{Text: "c"}})
	for n := range policy.MaxSenders + 3 {
		who := policy.Sender{ID: fmt.Sprint("p", n), Channel: "irc", Peer: "room"}
		do(&Post{To: child, Text: "x", RunID: id(10 + n), Senders: []policy.Sender{who}})
		do(Granted{Run: child})
		do(&TurnDone{Run: child, N: uint32(n + 2), Answer: &Result{Text: "c"}})
		require.LessOrEqual(t, len(s.tree.Run(child).Senders()), policy.MaxSenders)
	}
	require.Contains(t, s.tree.Run(child).Senders(), policy.Sender{ID: "*", Channel: "irc", Peer: "room"})
}

// A run that an earlier library has begun works for whom that has recorded. The next follow-up
// counts all for whom the runs have worked that are kept.
func TestSendersOfEarlierFollowUps(t *testing.T) {
	ann, bob := speakers(1), speakers(2)
	s := newScene()
	do := func(c Command) {
		require.NotContains(t, s.do(c), "VIOLATION", "%T", c)
	}
	id := func(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }
	do(&Open{Writer: "w", SessionID: "s"})
	do(&Spawn{Parent: top, ID: id(1), Task: "x", Senders: bob})
	child := s.tree.Sessions()[0]
	do(Granted{Run: child})
	do(&TurnDone{Run: child, N: 1, Answer: &Result{Text: "c"}})
	r := s.tree.Run(child)
	f := restarted(s.now, r, &Post{To: child, Text: "more"}, &Begin{
		ID: id(2), Ord: r.NextOrd + 1, Created: s.now,
	})
	f.Own().Senders = ann
	require.NoError(t, s.tree.Apply(&f))
	require.Equal(t, ann, s.tree.Run(child).Senders(), "as it meant then")
	require.Equal(t, speakers(3), policy.MergeSenders(ann, bob))
	require.ElementsMatch(t, speakers(3), s.tree.Run(child).everSenders())
}

// A turn that a wait begins works for those for whom the session waited, though it reads nothing,
// and so does one that repeats it after a crash.
func TestSendersOfAWait(t *testing.T) {
	ann, bob := speakers(1), speakers(2)
	s := newScene()
	s.opt.Rules.Owners = []policy.Person{{ID: "ann"}}
	s.opt.Tools = []string{ownersTool, "read"}
	do := func(c Command) {
		require.NotContains(t, s.do(c), "VIOLATION", "%T", c)
	}
	do(&Open{Writer: "w", SessionID: "s"})
	do(&Post{To: top, Text: "look", Senders: bob})
	do(Granted{Run: top})
	do(&Spawn{Parent: top, ID: "00000001-0000-4000-8000-000000000000", Turn: 1, Task: "x"})
	do(&TurnDone{
		Run: top, N: 1, Answer: &Result{Text: "a"}, Yield: &Join{Until: s.now + 1e9, Within: 1e9},
	})
	do(&Post{To: top, Text: "and you?", Senders: ann})
	do(Granted{Run: top})
	require.Equal(t, ann, s.tree.Root().Senders(), "it answers an owner meanwhile")
	do(&TurnDone{Run: top, N: 2, Answer: &Result{Text: "b"}})
	s.now += 2e9
	do(Tick{})
	do(Granted{Run: top})
	require.NotNil(t, s.tree.Root().Open)
	require.Equal(t, bob, s.tree.Root().Senders())
	do(&Open{Writer: "w2"})
	do(Granted{Run: top})
	require.NotNil(t, s.tree.Root().Open)
	require.Equal(t, bob, s.tree.Root().Senders())
	do(&TurnDone{Run: top, N: 4, Answer: &Result{Text: "c"}})
}

// A turn that a crash repeats works for those for whom the session waited, if the wait is over by
// then, and for those whom the turn before has read.
func TestSendersOfAWaitThatEndsInACrash(t *testing.T) {
	ann, bob := speakers(1), speakers(2)
	s := newScene()
	s.opt.Rules.Owners = []policy.Person{{ID: "ann"}}
	do := func(c Command) {
		require.NotContains(t, s.do(c), "VIOLATION", "%T", c)
	}
	do(&Open{Writer: "w", SessionID: "s"})
	do(&Post{To: top, Text: "look", Senders: bob})
	do(Granted{Run: top})
	do(&Spawn{Parent: top, ID: "00000001-0000-4000-8000-000000000000", Turn: 1, Task: "x"})
	do(&TurnDone{
		Run: top, N: 1, Answer: &Result{Text: "a"}, Yield: &Join{Until: s.now + 1e9, Within: 1e9},
	})
	do(&Post{To: top, Text: "and you?", Senders: ann})
	do(Granted{Run: top})
	require.Equal(t, ann, s.tree.Root().Senders())
	s.now += 2e9
	do(&Open{Writer: "w2"})
	do(Granted{Run: top})
	require.NotNil(t, s.tree.Root().Open)
	require.Equal(t, policy.MergeSenders(ann, bob), s.tree.Root().Senders())
}

// So does a turn that reads what a turn had begun with which a person has cancelled and a crash has
// cut off.
func TestSendersOfATurnThatIsCancelledAndCutOff(t *testing.T) {
	ann, bob := speakers(1), speakers(2)
	s := newScene()
	s.opt.Rules.Owners = []policy.Person{{ID: "ann"}}
	do := func(c Command) {
		require.NotContains(t, s.do(c), "VIOLATION", "%T", c)
	}
	do(&Open{Writer: "w", SessionID: "s"})
	do(&Spawn{Parent: top, ID: "00000001-0000-4000-8000-000000000000", Task: "x", Announce: true})
	do(&Post{To: top, Text: "wait for it", Senders: bob})
	do(Granted{Run: top})
	do(&TurnDone{
		Run: top, N: 1, Answer: &Result{Text: "a"}, Yield: &Join{Until: s.now + 1e12, Within: 1e12},
	})
	child := s.tree.Sessions()[0]
	do(Granted{Run: child})
	do(&TurnDone{Run: child, N: 1, Answer: &Result{Text: "found"}})
	do(Granted{Run: top})
	require.NotNil(t, s.tree.Root().Open)
	require.Equal(t, bob, s.tree.Root().Senders())
	do(CancelTurn{Run: top})
	do(&Open{Writer: "w2"})
	require.Nil(t, s.tree.Root().Open)
	do(&Post{To: top, Text: "and now?", Senders: ann})
	do(Granted{Run: top})
	require.NotNil(t, s.tree.Root().Open)
	require.Equal(t, policy.MergeSenders(bob, ann), s.tree.Root().Senders())
}

// A completion that moves from the outbox to the inbox keeps its run, also where nothing else names
// that any more: the session reads what came of it.
func TestRedirectedCompletionKeepsItsRun(t *testing.T) {
	s := newScene()
	s.opt.CallerRun = true
	do := func(c Command) {
		require.NotContains(t, s.do(c), "VIOLATION", "%T", c)
	}
	id := func(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }
	do(&Open{Writer: "w", SessionID: "s"})
	do(&Spawn{Parent: top, ID: id(1), Task: "x", Announce: true})
	child := s.tree.Sessions()[0]
	for n := 1; n <= 3; n++ {
		if n > 1 {
			do(&Post{To: child, Text: "more", RunID: id(n), Announce: true})
		}
		do(Granted{Run: child})
		do(&TurnDone{Run: child, N: uint32(n), Answer: &Result{Text: Text(id(n))}})
	}
	require.Len(t, s.tree.Run(child).Past, 2)
	do(&Post{To: child, Text: "more", RunID: id(4)}) // the second run is neither first nor last
	s.opt.CallerRun = false
	do(&Open{Writer: "w2"})
	require.Len(t, s.tree.Root().Inbox, 3)
	for i, in := range s.tree.Root().Inbox {
		of, known := s.tree.Run(in.From).RunOf(in.RunID)
		require.True(t, known, "completion %d", i)
		require.Equal(t, Text(id(i+1)), of.Answer.Text)
	}
}

// A message of a person says by itself who that is: its fact repeats it only where the people are
// others. So a message that an earlier library has recorded binds as well, read or unread, with the
// turn that reads it, a snapshot within that turn, and the wait that it begins.
func TestSendersOfAMessageAreItsOwn(t *testing.T) {
	bob := policy.Sender{ID: "bob", Channel: "irc", Peer: "room"}
	unknown := policy.Sender{Channel: "irc", Peer: "room"}
	owner := policy.Sender{ID: "bob", Channel: "irc", Peer: "room", Owner: true}
	route := &session.Route{Channel: "irc", To: "room"}
	mail := &Mail{Sender: session.Sender{ID: "bob", Name: "Bob"}}
	for name, c := range map[string]struct {
		post     Post
		recorded []policy.Sender
		people   []policy.Sender
	}{
		"its sender":    {Post{Mail: mail, Senders: []policy.Sender{bob}}, nil, []policy.Sender{bob}},
		"none is given": {Post{Mail: mail}, nil, []policy.Sender{bob}},
		"not known":     {Post{}, nil, []policy.Sender{unknown}},
		"an owner": {
			Post{Mail: mail, Senders: []policy.Sender{owner}},
			[]policy.Sender{owner},
			[]policy.Sender{owner},
		},
		"several":      {Post{Mail: mail, Senders: speakers(3)}, speakers(3), speakers(3)},
		"of a session": {Post{Mail: mail, From: session.Must(session.NamedKey("main", "x"))}, nil, nil},
		"of a session that works for people": {
			Post{From: session.Must(session.NamedKey("main", "x")), Senders: []policy.Sender{unknown}},
			[]policy.Sender{unknown},
			[]policy.Sender{unknown},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := ownedScene()
			do := func(c Command) {
				require.NotContains(t, s.do(c), "VIOLATION", "%T", c)
			}
			do(&Open{Writer: "w", SessionID: "s"})
			c.post.To, c.post.Text, c.post.Route = top, "do it", route
			do(&c.post)
			require.Equal(t, c.recorded, s.tree.Root().Inbox[0].Senders)
			do(Granted{Run: top})
			require.Equal(t, c.people, s.tree.Root().Senders())

			old := s.tree.Image() // as an earlier library has written it
			old.Runs[0].Inbox[0].Senders, old.Runs[0].Senders = c.recorded, nil
			later := New(top, &s.opt)
			require.NoError(t, later.Replay(snapshotOf(old)))
			require.Equal(t, c.people, later.Root().Senders())

			answer, join := &Result{Text: "a"}, &Join{Until: s.now + 1}
			f := turnEnded(s.now, s.tree.Root(), OK, answer, 0, 0, join)
			require.NoError(t, s.tree.Apply(&f))
			require.Equal(t, c.people, s.tree.Root().Join.Senders)
		})
	}
}
