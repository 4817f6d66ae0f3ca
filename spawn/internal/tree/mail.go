package tree

import (
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

// Asked are messages of people.
type Asked struct {
	IDs  []string          `json:"ids,omitempty"`
	Meta map[string]string `json:"meta,omitempty"` // of the last one
}

// A Saying is something that a turn has told people. It is named by ID, or else by Num, among those
// of one session since it last consumed inputs.
type Saying struct {
	Num  uint32 `json:"n,omitempty"`
	ID   string `json:"id,omitempty"`
	Text Text   `json:"text,omitempty"`
}

// asking returns the messages that a reply answers: those that earlier turns have read and not
// answered, and those in an inbox up to an ordinal.
func (r *Run) asking(inbox []Input, through uint32) (a Asked) {
	if r.Asked != nil {
		a = *r.Asked
		a.IDs = slices.Clip(a.IDs)
	}
	for i := range inbox {
		in := &inbox[i]
		if in.Ord > through {
			break
		}
		if in.Class != User {
			continue
		}
		if a.Meta = nil; in.Mail != nil {
			a.Meta = in.Mail.Meta
		}
		if in.ID != "" {
			a.IDs = append(a.IDs, in.ID)
		}
	}
	return a
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

// speaks reports whether a turn of r ends with a reply.
func (t *Tree) speaks(r *Run, f *Fact) bool {
	if !r.IsRoot() || f.Answer == nil {
		return false
	}
	return f.Flags&FlagReply != 0 || f.Answer.Reply != "" && f.Flags&FlagCut == 0 &&
		r.Cause == NoCause && f.State != Cancelled
}

// speak folds what a turn of r tells people, with FlagReply through the outbox.
func (t *Tree) speak(r *Run, f *Fact, asked Asked) {
	a := f.Answer
	e := &Entry{
		Run: r.Key(), To: r.Key(), Reply: true, Failed: f.Kind == TurnEnded && f.State != OK,
		Text: a.Reply, ReplyTo: a.ReplyTo, Voice: a.Voice, Route: f.Route,
		Interim: f.Kind == Said, Turn: f.N,
		InReplyTo: asked.IDs, Meta: asked.Meta, Created: f.At, Due: f.At,
	}
	if e.Failed {
		e.Cause = f.Text
	}
	if f.Flags&FlagReply != 0 {
		t.addEntry(e)
	} else {
		e.Route = r.Route
	}
	t.spoken = append(t.spoken, e)
}

// TakeSpoken returns what the turns have told people in the batch that was taken last, in order,
// also if nothing leaves through the outbox. The caller does not change it.
func (t *Tree) TakeSpoken() []*Entry {
	list := t.spoken
	t.spoken = nil
	return list
}

// keepAsked folds which messages wait for an answer after a turn of the top-level session. A turn
// that says nothing leaves them to the next one, as long as there is something that starts it.
func (t *Tree) keepAsked(r *Run, f *Fact, inbox []Input, read uint32) {
	switch {
	case !r.IsRoot() || f.Flags&FlagCrashed != 0 && f.Flags&FlagGivenUp == 0:
	case t.speaks(r, f) || f.Flags&FlagCut != 0 || f.State == Cancelled || r.TurnCancelled,
		r.Cause != NoCause || !r.owesAnswer():
		r.Asked = nil
	default:
		if a := r.asking(inbox, read); len(a.IDs) > 0 || len(a.Meta) > 0 {
			r.Asked = &a
		}
	}
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

// Waiting reports whether a message of the top-level session waits for an answer: no turn has read
// it, one that is under way has, or a later one is still to answer it. Aside says that it starts no
// turn.
func (t *Tree) Waiting(id string) (waiting, aside bool) {
	r := t.root
	for i := range r.Inbox {
		if in := &r.Inbox[i]; in.Class == User && in.ID == id {
			return true, in.Ord <= r.Aside
		}
	}
	return r.Asked != nil && slices.Contains(r.Asked.IDs, id), false
}

// ReplyTo returns the oldest reply in the outbox with which a turn that answers a message has
// ended, and the last one that was said before that. Each may be nil.
func (t *Tree) ReplyTo(id string) (final, interim *Entry) {
	for _, ord := range t.outbox.ords() {
		switch e := t.outbox.entries[ord]; {
		case !e.Reply || !slices.Contains(e.InReplyTo, id):
		case !e.Interim:
			return e, interim
		default:
			interim = e
		}
	}
	return nil, interim
}

// LastSaid returns what was said last over a message of the top-level session that no turn has
// consumed, or nil. It may have been delivered.
func (t *Tree) LastSaid(id string) *Entry {
	r := t.root
	if len(r.Said) == 0 {
		return nil
	}
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Class != User || in.ID != id || r.Open != nil && in.Ord > r.Open.Through {
			continue
		}
		asked := r.asking(r.Inbox, in.Ord)
		return &Entry{
			Run: r.Key(), To: r.Key(), Reply: true, Interim: true, Turn: r.Turns, Route: r.Route,
			Text: r.Said[len(r.Said)-1].Text, InReplyTo: asked.IDs, Meta: asked.Meta,
		}
	}
	return nil
}

// filledRoute returns the route of a message, which may be nil, with what it lacks filled in from
// that of the message before, as long as that is of the same conversation. Without either it is
// what the key says, or nil.
func (r *Run) filledRoute(route *session.Route) *session.Route {
	stored := r.Route
	for i := range r.Inbox {
		if in := &r.Inbox[i]; in.Class == User && in.Route != nil {
			stored = in.Route
		}
	}
	switch own := r.Key().Route(); {
	case route == nil && stored == nil && !own.IsZero():
		return &own
	case route == nil || stored == nil:
		return route
	}
	filled := route.Or(*stored)
	return &filled
}

func (t *Tree) decideEnsure(c Ensure) (Reply, error) {
	r := t.find(c.Run)
	switch {
	case r == nil:
		return Reply{}, fmt.Errorf("%w: posting to %q", ErrNotFound, c.Run)
	}
	known, err := t.postKnown(c.Run, c.ID)
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

// decideSay tells people something on behalf of the turn under way of r, once under each name.
func (t *Tree) decideSay(r *Run, c *Say) (Reply, error) {
	switch {
	case !r.IsRoot():
		return Reply{}, fmt.Errorf("%w: %q", ErrNoConversation, c.Run)
	case !utf8.ValidString(c.ID):
		return Reply{}, &InputError{"id", "it is not UTF-8: " + text.Quote(c.ID)}
	case text.IsBlank(string(c.Answer.Reply)):
		return Reply{}, blankError("text", c.Answer.Reply)
	}
	l := &t.opt.Limits
	if err := l.checkID(c.ID); err != nil {
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
	return slices.ContainsFunc(r.Said, func(s Saying) bool { return s.ID == id && s.Num == num })
}

func (t *Tree) applySaid(r *Run, f *Fact) error {
	switch {
	case !r.IsRoot():
		return &CorruptError{f.Kind, f.Run, "a sub-agent does not speak to people"}
	case r.hasSaid(f.ID, f.Ord):
		return &CorruptError{f.Kind, f.Run, "it has been said before"}
	}
	r.Said = append(slices.Clip(r.Said), Saying{Num: f.Ord, ID: f.ID, Text: f.Answer.Reply})
	t.speak(r, f, r.asking(r.Inbox, r.Open.Through))
	return nil
}

// decidePost adds a message to an inbox. Deliveries to that session whose receiver was busy become
// due at once, because the receiver is heard from.
func (t *Tree) decidePost(c *Post) (Reply, error) {
	if known, err := t.postKnown(c.To, c.ID); known || err != nil {
		seen := t.posts[postKey{c.To, c.ID}]
		return Reply{Run: t.find(c.To), Ref: c.To, RunID: seen.runID, Existing: known}, err
	}
	r := t.find(c.To)
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
	f := posted(t.now, r, User, c.ID, c.Text, c.From)
	f.Route, f.Mail = r.filledRoute(c.Route), c.Mail
	if c.Thread {
		f.Flags = FlagThread
	}
	t.emit(f)
	for _, ord := range t.busyFor(c.To) {
		t.emit(outboxFact(Revived, t.now, ord, 0, ""))
	}
	return Reply{Run: r, Ref: c.To, RunID: r.RunID()}, nil
}

// postKnown reports whether a message with an id has come before, whatever has become of its
// session since.
func (t *Tree) postKnown(to session.Key, id string) (bool, error) {
	if err := t.opt.Limits.checkID(id); err != nil {
		return false, err
	}
	if !utf8.ValidString(id) {
		return false, &InputError{"id", "it is not UTF-8: " + text.Quote(id)}
	}
	seen, ok := t.posts[postKey{to, id}]
	return ok && seen.until > t.now, nil
}

// Knows reports whether a message with an id has come to a session, by the last command.
func (t *Tree) Knows(to session.Key, id string) bool {
	seen, ok := t.posts[postKey{to, id}]
	return ok && seen.until > t.now
}

func (t *Tree) decideSteer(c *Steer) (Reply, error) {
	if known, err := t.postKnown(c.To, c.ID); known || err != nil {
		return Reply{Run: t.find(c.To), Ref: c.To, Existing: known}, err
	}
	r := t.find(c.To)
	switch n := utf8.RuneCountInString(string(c.Text)); {
	case r == nil || r.IsRoot():
		return Reply{}, fmt.Errorf("%w: steering %q", ErrNotFound, c.To)
	case r.State.Terminal():
		return Reply{}, fmt.Errorf("%w: steering %q", ErrEnded, c.To)
	case r.Cause != NoCause:
		return Reply{}, fmt.Errorf("%w: steering %q", ErrStopping, c.To)
	case n > MaxSteer:
		reason := fmt.Sprintf("it has %d characters, the limit is %d", n, MaxSteer)
		return Reply{}, &InputError{"text", reason}
	case text.IsBlank(string(c.Text)):
		return Reply{}, blankError("text", c.Text)
	}
	if last := r.lastSteer(c.From); last > 0 && last+int64(SteerPause) > t.now {
		wait := last + int64(SteerPause) - t.now
		return Reply{}, &policy.Refusal{
			Op: "steer", Rule: RuleSteer,
			Asked: "a steer " + max(SteerPause-time.Duration(wait), 0).String() + " after the last",
			Limit: "one in " + SteerPause.String() + "; wait " + time.Duration(wait).String(),
		}
	}
	t.emit(posted(t.now, r, Control, c.ID, c.Text, c.From))
	return Reply{Run: r, Ref: c.To}, nil
}
