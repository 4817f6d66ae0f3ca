package tree

import (
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// Authority returns what a session may use and hand down under the present rules: what it was
// granted, within what is left to every session above it. It is decided once for each session of
// the tree, until the rules change: a grant does not change. Without rules it is what was granted.
// The caller must not change it.
//
// Authority does not ask Sandbox.Decide of the rules, which is the caller's and not called by a
// tree: until a spawn has had the answer, a session counts as sandboxed if that was granted. See
// [Tree.Lineage] for the whole.
func (t *Tree) Authority(r *Run) *policy.Authority {
	switch {
	case r.rights != nil:
		return r.rights
	case t.rules == nil:
		a := r.Spec.Authority()
		return &a
	case t.rules.Sandbox.Decide != nil:
		rules := *t.rules
		rules.Sandbox.Decide = func(_ string, key session.Key) bool {
			of := t.find(key)
			return of != nil && of.Spec.Sandboxed
		}
		a := t.authorityUnder(&rules, r)
		return &a
	}
	if older := r.older(); older != nil && older.rights != nil && older.likeFor(r) {
		r.rights = older.rights // the runs of one fan-out share it
		return r.rights
	}
	a := t.authorityUnder(t.rules, r)
	if older := r.older(); older != nil && older.rights != nil &&
		sameAuthority(older.rights, &a) {
		r.rights = older.rights
	} else {
		own := a // &a would move a to the heap even when it is shared
		r.rights = &own
	}
	return r.rights
}

// Rights returns what a session may use and hand down for the people for whom it works now: its
// Authority, within what the least of them may. The caller must not change it.
func (t *Tree) Rights(r *Run) *policy.Authority {
	a := t.Authority(r)
	if t.rules == nil || !t.rules.BindsSenders() || len(r.Senders()) == 0 && !r.IsRoot() {
		return a
	}
	bound := t.rules.ForSenders(*a, t.root.key, r.Senders())
	return &bound
}

// Otherwise returns the tools that a session would have today if what depends on who speaks kept
// none from it, at its spawn either. Which tools the spawn has asked for is not on record, so that
// those count that it has not asked for.
func (t *Tree) Otherwise(r *Run) []string {
	rules := t.rules
	if r.IsRoot() || rules == nil {
		return t.Authority(r).Tools
	}
	if rules.Sandbox.Decide != nil {
		own := *rules
		own.Sandbox.Decide = func(_ string, key session.Key) bool {
			of := t.find(key)
			return of != nil && of.Spec.Sandboxed
		}
		rules = &own
	}
	return t.otherwise(rules, r).Tools
}

func (t *Tree) otherwise(rules *policy.Rules, r *Run) policy.Authority {
	if r.IsRoot() {
		return *t.Authority(r)
	}
	given := r.Spec.Authority()
	given.Tools, given.Delegable = t.opt.Tools, t.opt.Tools
	above := t.otherwise(rules, r.Parent)
	return rules.Effective(above, policy.Descendant{Key: r.Spec.Key, Given: given})
}

// sendersOf returns the people for whom a run works that c asks for: those for whom the turn works
// that does, or the run of a sub-agent, and those whom the caller has named.
func (t *Tree) sendersOf(parent *Run, c *Spawn) []policy.Sender {
	if parent.IsRoot() && c.Turn == 0 {
		return policy.MergeSenders(nil, c.Senders)
	}
	return policy.MergeSenders(parent.Senders(), c.Senders)
}

// everSenders returns the people for whom a sub-agent has worked in all its runs. Each run counts
// those of the runs before it, but for one that an earlier library has begun: of such runs those
// count that are kept, the first and the last one among them.
func (r *Run) everSenders() []policy.Sender {
	all := r.Senders()
	for i := range r.Past {
		all = policy.MergeSenders(all, r.Past[i].Senders)
	}
	return all
}

// readSenders sets the people for whom a session works when a turn of it reads its inputs after one
// ordinal and up to another. A run works for everyone of whom its session has read something.
// A top-level session works in each turn for those of whom that turn reads: people, sessions that
// have sent it something, and runs whose ends it is told, which have worked for people themselves.
// A turn that ends a wait works for those for whom the session waited, too.
func (t *Tree) readSenders(r *Run, after, through uint32, begins bool, wait *Join) {
	var all []policy.Sender
	repeats := r.Retry || len(r.Crashes) > 0
	if !r.IsRoot() || !begins || repeats { // a turn that is repeated may have ended a wait
		all = r.Senders()
	}
	if r.IsRoot() && wait != nil {
		all = policy.MergeSenders(all, wait.Senders)
	}
	r.setSenders(t.addReaders(all, r, after, through))
}

// addReaders adds those for whom the inputs of r after one ordinal and up to another count.
func (t *Tree) addReaders(all []policy.Sender, r *Run, after, through uint32) []policy.Sender {
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Ord <= after || in.Ord > through {
			continue
		}
		of := in.people(r.key)
		if in.Class == Completion || in.Class == Milestone {
			if c := t.find(in.From); c != nil {
				run, _ := c.RunOf(in.RunID)
				of = run.Senders
			}
		}
		if len(of) > 0 {
			all = policy.MergeSenders(all, of)
		}
	}
	return all
}

// people returns the people for whom an input of a session counts. A message of a person has them
// on record if they are others than the person who said it, see personOf.
func (in *Input) people(to session.Key) []policy.Sender {
	if len(in.Senders) > 0 || in.Class != User || !in.From.IsZero() {
		return in.Senders
	}
	who, ok := personOf(to, in.Mail, in.Route, in.Thread)
	if !ok {
		return nil
	}
	return []policy.Sender{who}
}

// personOf returns the person who says a message, as the message itself has it: no fact repeats
// that. So the messages of earlier libraries, which recorded people under some rules only, have
// theirs as well. ok is false for a message of the program.
func personOf(
	to session.Key, mail *Mail, route *session.Route, bound bool,
) (who policy.Sender, ok bool) {
	var from session.Sender
	if mail != nil {
		from = mail.Sender
	}
	var at session.Route
	if route != nil {
		at = *route
	}
	return policy.SenderOf(to, from, at, bound)
}

// nameSenders gives a message of a person its people, if the command has none.
func (c *Post) nameSenders() {
	if len(c.Senders) > 0 || !c.From.IsZero() || c.Event {
		return
	}
	if who, ok := personOf(c.To, c.Mail, c.Route, c.Thread); ok {
		c.Senders = []policy.Sender{who}
	}
}

// dropSenders takes the people from the fact of a message that says by itself who they are.
func (f *Fact) dropSenders() {
	if len(f.Senders()) != 1 || !f.sender().IsZero() {
		return
	}
	who, ok := personOf(f.Run, f.Mail(), f.Route, f.Flags&FlagThread != 0)
	if ok && who == f.Senders()[0] {
		f.Own().Senders = nil
	}
}

// nameReaders gives a turn under way, of an image in which an earlier library has recorded no
// people, the people of the messages that it reads.
func (r *Run) nameReaders() {
	if r.Open == nil || len(r.Senders()) > 0 {
		return
	}
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Class == User && in.Ord > r.Consumed && in.Ord <= r.Open.Through {
			r.setSenders(policy.MergeSenders(r.Senders(), in.people(r.key)))
		}
	}
}

// likeFor reports whether policy cannot tell the sibling s from r, unless it asks Sandbox.Decide:
// both were granted the same, and their keys differ in the last part alone.
func (r *Run) likeFor(s *Run) bool {
	a, b := r.Key().String(), s.Key().String()
	n := strings.LastIndexByte(a, ':')
	return r.Spec.Grant == s.Spec.Grant && n > 0 && n == strings.LastIndexByte(b, ':') &&
		a[:n] == b[:n]
}

// Lineage returns what a session and every session below the top-level one and above it were
// granted, from the top down, appended to list. It is what policy folds under the present rules.
func (t *Tree) Lineage(list []policy.Descendant, r *Run) []policy.Descendant {
	for ; !r.IsRoot(); r = r.Parent {
		list = append(list, policy.Descendant{Key: r.Key(), Given: r.Spec.Authority()})
	}
	slices.Reverse(list)
	return list
}

// authorityUnder is Authority under certain rules. If they stand for those of the tree while a
// command is decided, what it returns is of use only if every question has an answer.
func (t *Tree) authorityUnder(rules *policy.Rules, r *Run) policy.Authority {
	switch {
	case r.rights != nil:
		return *r.rights
	case r.IsRoot():
		return rules.TopAuthority(r.Key(), rules.SessionModel(r.Key(), t.opt.Model), t.opt.Tools)
	case rules == t.rules:
		return rightsUnder(rules, *t.Authority(r.Parent), r.Spec)
	}
	return rightsUnder(rules, t.authorityUnder(rules, r.Parent), r.Spec)
}

// rightsUnder returns what is left to a run below a session with the authority above.
func rightsUnder(rules *policy.Rules, above policy.Authority, s *Spec) policy.Authority {
	return rules.Effective(above, policy.Descendant{Key: s.Key, Given: s.Authority()})
}

func sameAuthority(a, b *policy.Authority) bool {
	return a.Agent == b.Agent && a.Role == b.Role && a.Depth == b.Depth && a.Model == b.Model &&
		a.Sandboxed == b.Sandboxed && slices.Equal(a.Tools, b.Tools) &&
		slices.Equal(a.Delegable, b.Delegable)
}

// A Question is what deciding a Spawn must know from a function of the caller. No such function is
// called within a decision: it may panic, take its time, or call back. Its answer comes with the
// command, which is decided again for that.
type Question struct {
	// Spawn asks whether the run with the Key, which the rules have admitted, may be for the
	// program, too.
	Spawn bool
	Model string // whether this model is valid; empty: the question is about a sandbox
	Agent string // whether a session of this agent ...
	Key   session.Key
	Rules *policy.Rules // whose Sandbox.Decide is asked; the answer counts under no others
}

// Answers are what the functions of the caller have answered for one command.
type Answers map[Question]bool

// A QuestionsError says that a command was not decided, because answers are missing. Nothing has
// changed.
type QuestionsError struct {
	Questions []Question
	Spec      *Spec         // of the run that may be admitted, if that is a Question; else nil
	Rules     *policy.Rules // that admit the run of the Spec
}

func (e *QuestionsError) Error() string {
	return "spawn: " + text.Count(len(e.Questions), "answer is", "answers are") + " missing"
}

// asker answers the questions of one decision, and notes those that have no answer.
type asker struct {
	answers Answers
	open    []Question
}

// newAsker returns an asker, or nil for a tree whose decisions ask nothing.
func (t *Tree) newAsker(answers Answers) *asker {
	if !t.opt.AskModels && !t.opt.AskSpawns && t.rules.Sandbox.Decide == nil {
		return nil
	}
	return &asker{answers: answers}
}

func (a *asker) ask(q Question) bool {
	yes, known := a.answers[q]
	if !known && !slices.Contains(a.open, q) {
		a.open = append(a.open, q)
	}
	return yes
}

// missing returns a *QuestionsError if a question has no answer.
func (a *asker) missing() error {
	if a == nil || len(a.open) == 0 {
		return nil
	}
	return &QuestionsError{Questions: a.open}
}

// validModel returns the function that tells policy which models are valid, nil for all.
func (t *Tree) validModel(a *asker) func(string) bool {
	if !t.opt.AskModels {
		return nil
	}
	return func(model string) bool { return a.ask(Question{Model: model}) }
}

// rulesFor returns the rules, which ask a in place of the caller's Sandbox.Decide.
func (t *Tree) rulesFor(a *asker) *policy.Rules {
	if t.rules.Sandbox.Decide == nil {
		return t.rules
	}
	rules := *t.rules
	rules.Sandbox.Decide = func(agent string, key session.Key) bool {
		return a.ask(Question{Agent: agent, Key: key, Rules: t.rules})
	}
	return &rules
}

// policyCaller describes a session that spawns to policy.
func (t *Tree) policyCaller(r *Run, rules *policy.Rules, of []policy.Sender) policy.Caller {
	now := rules.ForSenders(t.authorityUnder(rules, r), t.root.key, of)
	c := policy.Caller{
		Key: r.Key(), Role: now.Role, Depth: r.Spec.Depth, Children: r.Live(),
		Spawned: int(r.Spawned), TreeRuns: int(t.total),
		Blocked: t.outbox.blocked, Budget: remaining(t.rules.Budget, t.root.Charged),
		Thinking:  r.Spec.Thinking,
		Delegable: now.Delegable, Sandboxed: now.Sandboxed,
		Known: t.opt.Tools, Senders: of,
	}
	if r.IsRoot() {
		c.Thinking = t.opt.Thinking
	}
	c.Model = t.modelUnder(rules, r)
	return c
}

// Model returns the model that answered last in a session, if that is known, else the one that the
// session is to use. "" leaves it to the Runner.
func (t *Tree) Model(r *Run) string { return t.modelUnder(t.rules, r) }

func (t *Tree) modelUnder(rules *policy.Rules, r *Run) string {
	switch {
	case r.Answer != nil && r.Answer.Model != "":
		return string(r.Answer.Model)
	case r.IsRoot() && rules != nil:
		return rules.SessionModel(r.Key(), t.opt.Model)
	}
	return r.Spec.Model
}
