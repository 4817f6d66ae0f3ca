package tree

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Mail is what a message of a person has beside its text. It never changes.
type Mail struct {
	Sender session.Sender    `json:"sender,omitzero"`
	Sent   int64             `json:"sent,omitempty"`  // Unix nanoseconds; 0: when it was posted
	Parts  []session.Part    `json:"parts,omitempty"` // their bytes are in the store
	Meta   map[string]string `json:"meta,omitempty"`  // the caller's own, handed back with the reply
}

// bytes returns how many bytes the texts of m, which may be nil, take.
func (m *Mail) bytes() (n int) {
	if m == nil {
		return 0
	}
	for _, p := range m.Parts {
		n += len(p.MediaType) + len(p.Name) + len(p.URL) + len(p.File.Hash)
	}
	for k, v := range m.Meta {
		n += len(k) + len(v)
	}
	return n + len(m.Sender.ID) + len(m.Sender.Name)
}

// Asked are messages of people, of one conversation.
type Asked struct {
	IDs  []string          `json:"ids,omitempty"`
	Meta map[string]string `json:"meta,omitempty"` // of the last one
	// Route is the conversation, which is or was bound to the session. Nil: it is none, but where
	// the session speaks otherwise.
	Route *session.Route `json:"route,omitempty"`
	// At is where a top-level session answers them, without a Route; zero: that is not known yet.
	// Nil: anywhere, as an earlier library kept the messages of all those places together.
	At *session.Route `json:"at,omitempty"`
}

// isAt reports whether a has messages of the conversation of a Route as that of an Asked.
func (a *Asked) isAt(route *session.Route) bool {
	if a.Route == nil || route == nil {
		return a.Route == route
	}
	return *a.Route == *route
}

// askedAt returns what list has of a conversation, and adds that.
func askedAt(list *[]Asked, route *session.Route) *Asked {
	i := slices.IndexFunc(*list, func(a Asked) bool { return a.isAt(route) })
	if i < 0 {
		i = len(*list)
		*list = append(*list, Asked{Route: route})
	}
	return &(*list)[i]
}

// An audience is whose messages a turn answers: those of a conversation, as the Route of an Asked,
// or of where a top-level session speaks otherwise.
type audience struct {
	route *session.Route
	at    session.Route // without a route; zero: it is not known
	// apart says that the places without a Route are told apart, see Fact.Elsewhere.
	apart bool
}

// has reports whether a turn that answers to answers what a has. Where that is not known, it is
// answered where the session speaks next.
func (to *audience) has(a *Asked) bool {
	switch {
	case to.route != nil || a.Route != nil:
		return a.isAt(to.route)
	case !to.apart || a.At == nil || a.At.IsZero():
		return true
	}
	return *a.At == to.at
}

// own returns what list has of the place of to, as one Asked, and adds that. An earlier library
// kept what was of another place in it, too.
func (to *audience) own(list *[]Asked) *Asked {
	at := to.at
	all := Asked{At: &at}
	rest := (*list)[:0:0]
	for _, a := range *list {
		if a.Route != nil || !to.has(&a) || to.apart && a.At == nil {
			rest = append(rest, a)
			continue
		}
		all.IDs, all.Meta = append(all.IDs, a.IDs...), a.Meta
		if a.At == nil || !a.At.IsZero() && *a.At != to.at {
			all.At = nil
		}
	}
	*list = append(rest, all)
	return &(*list)[len(rest)]
}

// conversation returns where a message comes from, as the Route of an Asked.
func (in *Input) conversation() *session.Route {
	if in.Thread {
		return in.Route
	}
	return nil
}

// converses reports whether a conversation is bound to r, or was and waits for an answer.
func (r *Run) converses(at session.Route) bool {
	return r.bindingOf(at) >= 0 ||
		slices.ContainsFunc(r.Asked, func(a Asked) bool { return a.isAt(&at) })
}

// A Saying is something that a turn has told people. It is named by ID, or else by Num, among those
// of one session since it last consumed inputs. A turn that begins without an input has names of
// its own: it may come between one that a crash interrupted and the one that repeats it.
type Saying struct {
	Num   uint32 `json:"n,omitempty"`
	ID    string `json:"id,omitempty"`
	Text  Text   `json:"text,omitempty"`
	Empty bool   `json:"empty,omitempty"` // the turn began without an input, to end a wait
}

// inThread reports whether a bound conversation began the present run of r, which answers there.
func (r *Run) inThread() bool { return r.Begin != nil && r.Begin.Thread }

// AnswersPeople reports whether the answer of the turn under way goes to people, as long as that
// consumes nothing else, and where it goes; nil: that is not known.
func (r *Run) AnswersPeople() (people bool, to *session.Route) {
	if r.Open == nil || r.Open.Compact || r.Open.Step || !r.answersPeople(r.Inbox, r.Open.Through) {
		return false, nil
	}
	return true, r.Route
}

// asking returns the messages that a reply to an audience answers.
func (r *Run) asking(inbox []Input, through uint32, to audience) (all Asked) {
	list := r.waiting(inbox, through, to)
	for i := range list {
		if a := &list[i]; to.has(a) {
			all.IDs, all.Meta = append(slices.Clip(all.IDs), a.IDs...), a.Meta
		}
	}
	return all
}

// audience returns whom a turn of r answers which reads an inbox up to an ordinal. r.Route is where
// it does. A fact that has apart set tells apart where r speaks otherwise than in a bound
// conversation.
func (r *Run) audience(inbox []Input, through uint32, apart bool) audience {
	if !r.IsRoot() {
		return audience{route: r.Route}
	}
	to := audience{at: r.lastRoute(), apart: apart}
	elsewhere := r.isElsewhere()
	if elsewhere {
		to.at = *r.Route
	}
	for i := len(inbox) - 1; i >= 0; i-- {
		if in := &inbox[i]; in.Ord <= through && r.fromPeople(in) {
			to.route = in.conversation()
			return to
		}
	}
	for i := range r.Asked {
		if a := &r.Asked[i]; a.Route != nil && a.isAt(r.Route) {
			to.route = a.Route
			return to
		}
	}
	if apart && r.Home != nil && !elsewhere { // a bound conversation, in which no person has asked
		to.route = r.Route
	}
	return to
}

// asksElsewhere reports whether messages wait for an answer that a turn of r, which reads an inbox
// up to an ordinal, must leave to another one, and that an earlier library would not have left.
func (r *Run) asksElsewhere(inbox []Input, through uint32) bool {
	if !r.IsRoot() || len(r.Asked) == 0 {
		return false
	}
	before, to := r.audience(inbox, through, false), r.audience(inbox, through, true)
	return before.route == nil && slices.ContainsFunc(r.Asked, func(a Asked) bool {
		return before.has(&a) && (a.At == nil || !to.has(&a))
	})
}

// waiting returns the messages that wait for an answer, by conversation: those that earlier turns
// have read and not answered, and those in an inbox up to an ordinal, which a turn reads that
// answers an audience. It shares nothing that is changed.
func (r *Run) waiting(inbox []Input, through uint32, to audience) []Asked {
	list := slices.Clone(r.Asked)
	for i := range list {
		list[i].IDs = slices.Clip(list[i].IDs)
	}
	var own bool
	for i := range inbox {
		in := &inbox[i]
		if in.Ord > through {
			break
		}
		if !r.fromPeople(in) {
			continue
		}
		var a *Asked
		switch at := in.conversation(); {
		case at != nil || !r.IsRoot():
			a, own = askedAt(&list, at), false
		case own:
			a = &list[len(list)-1]
		default:
			a, own = to.own(&list), true
		}
		if a.Meta = nil; in.Mail != nil {
			a.Meta = in.Mail.Meta
		}
		if in.ID != "" {
			a.IDs = append(a.IDs, in.ID)
		}
	}
	return list
}

// read returns the last input that a turn has read whose end f is.
func (f *Fact) read(open *OpenTurn) uint32 {
	switch {
	case f.Flags&FlagCrashed != 0:
		return f.Ord // 0, unless they are given up
	case f.Flags&FlagAside != 0:
		return f.Ord
	}
	return open.Through
}

// speaks reports whether a turn of r that answers people ends with a reply.
func (t *Tree) speaks(r *Run, f *Fact) bool {
	if f.Answer == nil {
		return false
	}
	return f.Flags&FlagReply != 0 || f.Answer.Reply != "" && f.Flags&FlagCut == 0 &&
		r.Cause == NoCause && f.State != Cancelled
}

// speak folds what r tells people in its last turn or at the end of a run, with FlagReply through
// the outbox.
func (t *Tree) speak(r *Run, f *Fact, asked Asked) {
	a := f.Answer
	e := &Entry{
		Run: r.Key(), To: t.root.Key(), Reply: true, Failed: f.Kind != Said && f.State != OK,
		Text: a.Reply, ReplyTo: a.ReplyTo, Voice: a.Voice, Route: f.Route,
		Interim: f.Kind == Said, Turn: r.Turns,
		InReplyTo: asked.IDs, Meta: asked.Meta, Created: f.At, Due: f.At, Senders: r.Senders(),
	}
	switch {
	case f.Kind == RunEnded:
		e.Cause = r.Reason
	case e.Failed:
		e.Cause = f.Text
	}
	switch {
	case f.Kind == RunEnded && f.Ord > 0:
		e.Route = asked.Route
	case f.Flags&FlagReply == 0 && f.Kind != RunEnded:
		e.Route = r.Route
	}
	if f.Flags&FlagReply != 0 {
		t.addEntry(e)
	}
	w := t.work()
	w.spoken = append(w.spoken, e)
}

// TakeSpoken returns what the turns have told people in the batch that was taken last, in order,
// also if nothing leaves through the outbox. The caller does not change it.
func (t *Tree) TakeSpoken() []*Entry {
	w := t.work()
	list := w.spoken
	w.spoken = nil
	return list
}

// keepAsked folds which messages wait for an answer after a turn of r that answers people. A turn
// that says nothing leaves them to the next one, as long as there is something that starts it, and
// every turn leaves those of other conversations. A sub-agent that is to end leaves them to the end
// of its run, see owed.
func (t *Tree) keepAsked(r *Run, f *Fact, inbox []Input, read uint32) {
	root, goesOn := r.IsRoot(), r.Cause == NoCause && f.State == OK
	switch {
	case f.Flags&FlagUntouched != 0, f.Flags&FlagCrashed != 0 && f.Flags&FlagGivenUp == 0:
	case !r.owesAnswer() && (root || goesOn):
		r.setAsked(nil)
	case t.speaks(r, f) || r.TurnCancelled,
		root && (f.Flags&FlagCut != 0 || f.State == Cancelled || r.Cause != NoCause):
		to := r.audience(inbox, read, f.Elsewhere)
		r.setAsked(slices.DeleteFunc(slices.Clone(r.Asked),
			func(a Asked) bool { return to.has(&a) }))
	default:
		to := r.audience(inbox, read, f.Elsewhere)
		list := r.waiting(inbox, read, to)
		if !root {
			askedAt(&list, to.route)
		}
		r.setAsked(slices.DeleteFunc(list, func(a Asked) bool {
			return root && len(a.IDs) == 0 && len(a.Meta) == 0
		}))
	}
}

// owed returns the messages of bound conversations that a run leaves without an answer which ends
// in the state end. One that was stopped owes an answer only where no turn has read a message, as a
// turn that was cancelled.
func (r *Run) owed(end State) []Asked {
	if r.IsRoot() || end == OK {
		return nil
	}
	return slices.DeleteFunc(r.waiting(r.Inbox, r.NextOrd, audience{}), func(a Asked) bool {
		unread := func(in Input) bool { return in.Thread && a.isAt(in.Route) }
		return end == Cancelled && !slices.ContainsFunc(r.Inbox, unread)
	})
}

// apologize adds to the end f of the run of r what is said to each conversation whose messages it
// leaves without an answer.
func (t *Tree) apologize(r *Run, f *Fact) {
	owed := r.owed(f.State)
	if len(owed) == 0 || t.opt.Apology == "" {
		return
	}
	f.Answer = &Result{Reply: t.opt.Apology}
	if f.Route = owed[0].Route; len(owed) > 1 {
		f.Route, f.Ord = nil, uint32(len(owed))
	}
	if t.opt.Replies {
		f.Flags |= FlagReply
	}
}

// speakLast folds what the end f of the run of r says to the conversations that it leaves: to each,
// or to one. An earlier library said it to one only.
func (t *Tree) speakLast(r *Run, f *Fact) error {
	if f.Ord == 0 {
		list := r.waiting(r.Inbox, r.NextOrd, audience{})
		t.speak(r, f, *askedAt(&list, f.Route))
		return nil
	}
	owed := r.owed(f.State)
	if len(owed) != int(f.Ord) {
		reason := fmt.Sprintf("conversations told: %d, left: %d", f.Ord, len(owed))
		return &CorruptError{f.Kind, f.Run, reason}
	}
	for _, a := range owed {
		t.speak(r, f, a)
	}
	return nil
}

// owesAnswer reports whether a turn of r is still to come that no message starts: r waits for
// children, or will be told of the end of one.
func (r *Run) owesAnswer() bool {
	if r.Join != nil || r.nComp > 0 {
		return true
	}
	told := false
	if r.live > 0 {
		r.Newest(func(c *Run) bool {
			told = !c.State.Terminal() && c.announces()
			return !told
		})
	}
	return told
}

// A letter is a message whose answer is waited for, to a session and from where it says.
type letter struct {
	to   session.Key
	id   string
	from origin
}

// letter returns what c is to the session k.
func (c *Post) letter(k session.Key) letter { return letter{k, c.ID, c.origin(k)} }

// isAt reports whether what has the id of a letter is the letter, if it is of a conversation that
// is bound, or was, and that is where at says; or if it is of none, and was said or is answered
// there. Nil: that is not known.
func (t *Tree) isAt(l letter, bound bool, at *session.Route) bool {
	switch {
	case bound != l.from.bound:
		return false
	case bound:
		return at != nil && *at == l.from.at
	case at == nil || at.IsZero():
		return true
	}
	own, known := t.seen(l.to, l.id, l.from)
	if !known || own.at == nil || *own.at == *at {
		return true
	}
	// The program may have had the answer go elsewhere. What came from there is another message.
	return !slices.ContainsFunc(t.posts.Of(postKey{l.to, l.id}), func(p seenPost) bool {
		return p.at != nil && *p.at == *at && (p.how == toldDirectly || p.how == toldAsBound)
	})
}

// isLetter reports whether an input of r is a letter to it.
func (t *Tree) isLetter(r *Run, in *Input, l letter) bool {
	return r.fromPeople(in) && in.ID == l.id && t.isAt(l, in.Thread, in.Route)
}

// Answers reports whether a reply is one to the message c to the session k: said where c comes
// from, if that is bound to the session, and else not in a conversation that is.
func (t *Tree) Answers(e *Entry, k session.Key, c *Post) bool {
	if !e.Reply || e.Run != k || !slices.Contains(e.InReplyTo, c.ID) {
		return false
	}
	l, r := c.letter(k), t.find(k)
	if !l.from.bound && r != nil && e.Route != nil && *e.Route != l.from.at &&
		r.bindingOf(*e.Route) >= 0 {
		return false
	}
	return t.isAt(l, l.from.bound, e.Route)
}

// Waiting reports whether a message to the session k waits for an answer to people: no turn has
// read it, one that is under way has, or a later one is still to answer it. Aside says that it
// starts no turn.
func (t *Tree) Waiting(k session.Key, c *Post) (waiting, aside bool) {
	r, l := t.find(k), c.letter(k)
	if r == nil {
		return false, false
	}
	for i := range r.Inbox {
		if in := &r.Inbox[i]; t.isLetter(r, in, l) {
			return true, in.Ord <= r.Aside
		}
	}
	return slices.ContainsFunc(r.Asked, func(a Asked) bool {
		return slices.Contains(a.IDs, c.ID) && t.isAt(l, a.Route != nil, cmp.Or(a.Route, a.At))
	}), false
}

// ReplyTo returns the oldest reply of the session k in the outbox with which a turn that answers a
// message has ended, and the last one that was said before that. Each may be nil.
func (t *Tree) ReplyTo(k session.Key, c *Post) (final, interim *Entry) {
	for _, ord := range t.outbox.ords() {
		switch e := t.outbox.entries[ord]; {
		case !t.Answers(e, k, c):
		case !e.Interim:
			return e, interim
		default:
			interim = e
		}
	}
	return nil, interim
}

// LastSaid returns what was said last over a message to the session k that no turn has consumed, or
// nil. It may have been delivered.
func (t *Tree) LastSaid(k session.Key, c *Post) *Entry {
	r, l := t.find(k), c.letter(k)
	if r == nil {
		return nil
	}
	said, ok := r.lastSaying()
	if !ok {
		return nil
	}
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if !t.isLetter(r, in, l) || r.Open != nil && in.Ord > r.Open.Through {
			continue
		}
		to := audience{route: in.conversation(), at: r.lastRoute(), apart: true}
		asked := r.asking(r.Inbox, in.Ord, to)
		e := &Entry{
			Run: k, To: t.root.Key(), Reply: true, Interim: true, Turn: r.Turns, Route: r.Route,
			Text: said.Text, InReplyTo: asked.IDs, Meta: asked.Meta,
			Senders: r.Senders(),
		}
		if t.Answers(e, k, c) {
			return e
		}
	}
	return nil
}

// lastSaying returns what the turn under way has said last, or one that it repeats; between turns
// it is what any has said that will be repeated.
func (r *Run) lastSaying() (Saying, bool) {
	for _, s := range slices.Backward(r.Said) {
		if r.Open == nil || r.Open.repeats(s) {
			return s, true
		}
	}
	return Saying{}, false
}

// TalksAt returns where r talks to people, or nil: where the turn under way answers. Between turns
// it is, for a top-level session, where it talks without those who have bound a conversation to it,
// and for a sub-agent the conversation that was bound to it last. Without any it is a conversation
// that is bound, or where the requester of a sub-agent was answering.
func (r *Run) TalksAt() *session.Route {
	var bound *session.Route
	if n := len(r.Bound); n > 0 {
		bound = &r.Bound[n-1].Route
	}
	switch at := r.Route; {
	case r.IsRoot() && r.Open == nil && r.Home != nil && !r.Home.IsZero():
		return r.Home
	case r.IsRoot() && r.Open == nil && r.Home != nil:
		return cmp.Or(r.ownRoute(), bound, at)
	case r.IsRoot():
		return cmp.Or(at, r.ownRoute(), bound)
	case r.Open != nil && at != nil && r.bindingOf(*at) >= 0:
		return at
	default:
		return cmp.Or(bound, at, r.Spec.Route())
	}
}

// ownRoute returns the conversation that the key of a top-level session names, or nil.
func (r *Run) ownRoute() *session.Route {
	if !r.IsRoot() {
		return nil
	}
	own := r.Key().Route()
	if own.IsZero() {
		return nil
	}
	route := own // &own would move one to the heap also where there is none
	return &route
}

func (t *Tree) decideEnsure(c Ensure) (Reply, error) {
	r := t.find(c.Run)
	of := cmp.Or(c.Of, &Post{To: c.Run})
	if of.Thread {
		known, err := t.postKnown(c.Run, c.ID, of.origin(c.Run)) // the own session knows this, too
		if err == nil && !known {
			if known, _ := t.postKnown(of.Own, c.ID, of.origin(of.Own)); known {
				return Reply{Run: t.find(of.Own), Ref: of.Own, Existing: true}, nil
			}
			err = t.threadForbidden(r, of)
		}
		if err != nil {
			return Reply{}, err
		}
	}
	if r == nil {
		return Reply{}, fmt.Errorf("%w: posting to %q", ErrNotFound, c.Run)
	}
	known, err := t.postKnown(c.Run, c.ID, of.origin(c.Run))
	if err == nil && !known && r.State.Terminal() {
		err = t.followUpForbidden(r)
	}
	return Reply{Run: r, Ref: c.Run, Existing: known}, err
}

func (t *Tree) decideSetRoute(c SetRoute) (Reply, error) {
	r := t.find(c.Run)
	switch {
	case r == nil:
		return Reply{}, fmt.Errorf("%w: the route of %q", ErrNotFound, c.Run)
	case !r.IsRoot():
		return Reply{}, fmt.Errorf("%w: the route of %q", ErrNoConversation, c.Run)
	}
	if err := checkRoute(&c.Route); err != nil {
		return Reply{}, err
	}
	var stored session.Route
	if r.Route != nil {
		stored = *r.Route
	}
	switch c.Route {
	case stored:
	case session.Route{}:
		t.emit(routeSet(t.now, r, nil))
	default:
		t.emit(routeSet(t.now, r, &c.Route))
	}
	return Reply{Run: r}, nil
}

// checkSay checks the name and the text of what people are told.
func (l Limits) checkSay(c *Say) error {
	switch {
	case !utf8.ValidString(c.ID):
		return &InputError{"id", "it is not UTF-8: " + text.Quote(c.ID)}
	case text.IsBlank(string(c.Answer.Reply)):
		return blankError("text", c.Answer.Reply)
	}
	return l.checkID(c.ID)
}

// decideSay tells people something on behalf of the turn under way of r, once under each name.
func (t *Tree) decideSay(r *Run, c *Say) (Reply, error) {
	if !r.answersPeople(r.Inbox, r.Open.Through) {
		return Reply{}, fmt.Errorf("%w: %q", ErrNoConversation, c.Run)
	}
	l := &t.opt.Limits
	if err := l.checkSay(c); err != nil {
		return Reply{}, err
	}
	if r.hasSaid(c.ID, c.Num) {
		return Reply{Run: r, Existing: true}, nil
	}
	if err := checkCount("says", len(r.Said)+1, l.Says, defaultSays, "texts", "Says"); err != nil {
		return Reply{}, err
	}
	f := said(t.now, r, c)
	if t.opt.Replies {
		f.Flags, f.Route = FlagReply, r.Route
	}
	t.emit(f)
	return Reply{Run: r}, nil
}

// hasSaid reports whether the turn under way of r, or one that it repeats, has said something under
// a name.
func (r *Run) hasSaid(id string, num uint32) bool {
	return slices.ContainsFunc(r.Said, func(s Saying) bool {
		return s.ID == id && s.Num == num && r.Open.repeats(s)
	})
}

// repeats reports whether what is to be said again was said in a turn that this one repeats. One
// that began without an input was to end a wait. It is repeated with what has come for that
// meanwhile, and repeats nothing itself that was said over inputs.
func (o *OpenTurn) repeats(s Saying) bool {
	return s.Empty == o.Empty || s.Empty && o.Wait != nil
}

// forgetSaid forgets what was said in turns that are not repeated, at the end of a turn that has
// read the inputs up to read. If the next turn repeats this one, it ends no wait. A turn that began
// without an input, and has read none, leaves what was said over those that are left.
func (r *Run) forgetSaid(open *OpenTurn, read uint32, repeats bool) {
	overAll := !open.Empty || read >= open.First
	kept := make([]Saying, 0, len(r.Said))
	for _, s := range r.Said {
		ended := open.repeats(s) || overAll && !s.Empty
		if ended && !repeats {
			continue
		}
		s.Empty = s.Empty && !ended
		kept = append(kept, s)
	}
	if len(kept) == 0 {
		kept = nil
	}
	r.setSaid(kept)
}

// forgetWait forgets what was said in a turn that was to end the wait of r, which is given up.
func (r *Run) forgetWait() {
	if slices.ContainsFunc(r.Said, func(s Saying) bool { return s.Empty }) {
		r.setSaid(slices.DeleteFunc(slices.Clone(r.Said), func(s Saying) bool { return s.Empty }))
	}
}

func (t *Tree) applySaid(r *Run, f *Fact) error {
	switch {
	case !r.answersPeople(r.Inbox, r.Open.Through):
		return &CorruptError{f.Kind, f.Run, "the turn does not answer people"}
	case f.Elsewhere && !r.IsRoot():
		return &CorruptError{f.Kind, f.Run, "it answers one place, and so does every sub-agent"}
	}
	if !r.hasSaid(f.ID(), f.Ord) { // an earlier library forgot it at the end of a wait
		r.setSaid(append(slices.Clip(r.Said), Saying{
			Num: f.Ord, ID: f.ID(), Text: f.Answer.Reply, Empty: r.Open.Empty,
		}))
	}
	t.speak(r, f, r.asking(r.Inbox, r.Open.Through,
		r.audience(r.Inbox, r.Open.Through, f.Elsewhere)))
	return nil
}

// decidePost adds a message to an inbox. Deliveries to that session whose receiver was busy become
// due at once, because the receiver is heard from.
func (t *Tree) decidePost(c *Post) (Reply, error) {
	for _, to := range [...]session.Key{c.To, c.Own} {
		if known, err := t.postKnown(to, c.ID, c.origin(to)); known || err != nil {
			seen, _ := t.seen(to, c.ID, c.origin(to))
			return Reply{Run: t.find(to), Ref: to, RunID: seen.runID, Existing: known}, err
		}
	}
	c.nameSenders()
	r := t.find(c.To)
	if c.Thread {
		if err := t.threadForbidden(r, c); err != nil {
			return Reply{}, err
		}
	}
	switch {
	case r == nil:
		return Reply{}, fmt.Errorf("%w: posting to %q", ErrNotFound, c.To)
	case r.State.Terminal():
		return t.decideFollowUp(r, c)
	case r.Cause != NoCause && !r.IsRoot():
		return Reply{}, fmt.Errorf("%w: posting to %q", ErrStopping, c.To)
	case c.SessionID != "" && c.SessionID != r.Spec.SessionID:
		return Reply{}, fmt.Errorf("%w: posting to %q", ErrMoved, c.To)
	}
	if err := t.opt.Limits.CheckPost(c, session.Part.Validate); err != nil {
		return Reply{}, err
	}
	if c.Event {
		return t.decideEvent(r, c)
	}
	f := posted(t.now, r, User, c.ID, c.Text, c.From)
	f.setMail(c.Mail)
	f.setSenders(c.Senders)
	c.route(r, &f)
	f.dropSenders()
	t.emit(f)
	t.reviveBusy(c.To)
	return Reply{Run: r, Ref: c.To, RunID: r.RunID()}, nil
}

// route adds to the fact f of a message where it came from. One of a bound conversation comes from
// there, and the conversation's own session knows it.
func (c *Post) route(r *Run, f *Fact) {
	if c.Thread {
		f.Flags, f.Route, f.Own().From = FlagThread, c.Route, c.Own
	} else {
		f.Route = r.filledRoute(c.Route)
	}
}

// steered returns where a steer comes from.
func steered(to session.Key) origin { return origin{at: to.Route().Clean()} }

// checkSteer checks the text of a steer.
func checkSteer(c *Steer) error {
	if n := utf8.RuneCountInString(string(c.Text)); n > MaxSteer {
		return &InputError{"text", fmt.Sprintf("it has %d characters, the limit is %d", n, MaxSteer)}
	}
	if text.IsBlank(string(c.Text)) {
		return blankError("text", c.Text)
	}
	return nil
}

func (t *Tree) decideSteer(c *Steer) (Reply, error) {
	if known, err := t.postKnown(c.To, c.ID, steered(c.To)); known || err != nil {
		return Reply{Run: t.find(c.To), Ref: c.To, Existing: known}, err
	}
	r := t.find(c.To)
	switch {
	case r == nil || r.IsRoot():
		return Reply{}, fmt.Errorf("%w: steering %q", ErrNotFound, c.To)
	case r.leaves():
		return Reply{}, archivedError("steering", c.To)
	case r.State.Terminal() || !r.isPresent(c.RunID):
		return Reply{}, fmt.Errorf("%w: steering %q", ErrEnded, c.To)
	case r.Cause != NoCause:
		return Reply{}, fmt.Errorf("%w: steering %q", ErrStopping, c.To)
	}
	if err := checkSteer(c); err != nil {
		return Reply{}, err
	}
	if err := t.opt.Limits.checkSenders(c.Senders); err != nil {
		return Reply{}, err
	}
	if last := r.lastSteer(c.From); last > 0 && last+int64(SteerPause) > t.now {
		wait := last + int64(SteerPause) - t.now
		return Reply{}, &policy.Refusal{
			Op: "steer", Rule: RuleSteer,
			Asked: "a steer " + max(SteerPause-time.Duration(wait), 0).String() + " after the last",
			Limit: "one in " + SteerPause.String() + "; wait " + time.Duration(wait).String(),
		}
	}
	f := posted(t.now, r, Control, c.ID, c.Text, c.From)
	f.setSenders(c.Senders)
	t.emit(f)
	return Reply{Run: r, Ref: c.To, RunID: r.RunID()}, nil
}
