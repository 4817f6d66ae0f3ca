package spawn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// This file converts what the tree holds to the types of this package and back. What reads a
// [tree.Tree] is called by the owner of the tree.

// timeOf returns the time of so many nanoseconds since 1970, in UTC. 0 is the zero time.
func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// infoOf returns what is known of the present run of a session.
func infoOf(t *tree.Tree, r *tree.Run) RunInfo {
	of := r.Present()
	info := runInfoOf(t, r, &of)
	info.Children = r.Live()
	return info
}

// runInfoOf returns what is known of a run of a session, apart from its Children: one that has
// ended has none.
func runInfoOf(t *tree.Tree, r *tree.Run, of *tree.Past) RunInfo {
	info := outcomeOf(t.Root().Key(), r.Spec, of)
	info.Name = r.Name()
	info.setRights(t.Rights(r))
	info.Conversations = slices.Grow(info.Conversations, len(r.Bound))
	for i := range r.Bound {
		info.Conversations = append(info.Conversations, r.Bound[i].Route)
	}
	return info
}

// outcomeOf is runInfoOf for what a session was granted, whatever is left of that today.
func outcomeOf(root session.Key, s *tree.Spec, of *tree.Past) RunInfo {
	info := RunInfo{
		ID: RunID(s.ID), Key: s.Key, Root: root, Parent: s.Parent, SessionID: s.SessionID,
		Depth: s.Depth, Role: s.Role, Agent: s.Agent, Label: s.Label(), Name: s.Name(),
		Task:   string(s.Task),
		Status: Status(of.State), Error: reasonOf(of),
		Model:    ModelInfo{Requested: s.Asked, Resolved: s.Model},
		Thinking: s.Thinking, Tools: slices.Clone(s.Tools),
		Warnings: slices.Clone(s.Warnings),
		Created:  timeOf(s.Created), Started: timeOf(of.Started),
		Deadline: timeOf(of.Deadline), Ended: timeOf(of.Ended),
		Missed: int(of.Missed),
		Turns:  int(of.Turns), Sandboxed: s.Sandboxed, Persistent: s.Session, Delete: s.Delete,
	}
	if b := of.Begin; b != nil {
		info.ID, info.Created = RunID(b.ID), timeOf(b.Created)
		info.FollowUp, info.From, info.Thread = true, b.From, b.Thread
	}
	if a := of.Answer; a != nil {
		info.Result = resultOf(a)
		if of.Cause == tree.AnswerRefused {
			info.Refused = string(a.Refused())
		}
		info.Model.Actual = string(a.Model)
	}
	info.Senders = slices.Clone(of.Senders)
	if a := of.Announced; a != nil && of.Cause == tree.NoCause {
		info.Announcement = string(a.Text)
	}
	info.Result.Usage = usageOf(of.Usage)
	return info
}

// runsOf returns the runs of a session that are kept, oldest first.
func runsOf(t *tree.Tree, r *tree.Run) []RunInfo {
	list := make([]RunInfo, 0, len(r.Past)+1)
	for i := range r.Past {
		list = append(list, runInfoOf(t, r, &r.Past[i]))
	}
	return append(list, infoOf(t, r))
}

// findRun returns what is known of a run, and whether the tree has it, or keeps it for its key.
func findRun(t *tree.Tree, ref RunRef) (info RunInfo, found bool) {
	r := t.Run(ref.Session)
	if r != nil {
		return findRunOf(t, r, ref.Run)
	}
	if _, found = standing(t, &ref); !found {
		return info, false
	}
	spec, end := t.Kept(ref.Session)
	return outcomeOf(t.Root().Key(), spec, end), true
}

// findRunOf returns what is known of a run of a session, which may be nil, and whether it has it.
func findRunOf(t *tree.Tree, r *tree.Run, id RunID) (info RunInfo, found bool) {
	if r == nil {
		return info, false
	}
	if id == "" || string(id) == r.RunID() {
		return infoOf(t, r), true
	}
	if of, kept := r.RunOf(string(id)); kept {
		return runInfoOf(t, r, &of), true
	}
	return info, false
}

// standing returns how a run stands, and whether the tree has it, or keeps it for its key. It sets
// the id of a run that is not named.
func standing(t *tree.Tree, ref *RunRef) (of tree.Past, found bool) {
	if r := t.Run(ref.Session); r != nil {
		if ref.Run == "" {
			ref.Run = RunID(r.RunID())
		}
		return r.RunOf(string(ref.Run))
	}
	spec, end := t.Kept(ref.Session)
	if end == nil || ref.Run != "" && string(ref.Run) != spec.ID {
		return of, false
	}
	ref.Run = RunID(spec.ID)
	return *end, true
}

// missingRun returns the error for a run that a tree does not have. If it has the session, a later
// run may have followed the one that is meant.
func missingRun(t *tree.Tree, doing string, ref RunRef) error {
	if t.Run(ref.Session) == nil {
		return fmt.Errorf("%w: %s%q", ErrNotFound, doing, ref.Session)
	}
	return fmt.Errorf("%w: %srun %s of %q, which has never had it or keeps it no longer",
		ErrNotFound, doing, text.Quote(string(ref.Run)), ref.Session)
}

// setRights sets what is left to a run of the tools that it was granted, and whether it is in a
// sandbox.
func (r *RunInfo) setRights(now *policy.Authority) {
	r.Sandboxed = now.Sandboxed
	granted := append(r.Tools, r.Revoked...)
	if len(now.Tools) == len(granted) {
		return
	}
	left := func(name string) bool { return slices.Contains(now.Tools, name) }
	r.Revoked = slices.DeleteFunc(slices.Clone(granted), left)
	r.Tools = slices.Clone(now.Tools)
}

// reasonOf says why a run does not end well, or "".
func reasonOf(of *tree.Past) string {
	if of.Cause == tree.NoCause {
		return ""
	}
	return string(of.Reason)
}

func resultOf(a *tree.Result) Result {
	res := Result{
		Text: string(a.Text), Model: string(a.Model), Usage: usageOf(a.Usage),
		Whole: a.Whole(), WholeJSON: a.WholeJSON(),
	}
	if a.JSON != "" {
		res.JSON = json.RawMessage(a.JSON)
	}
	for _, f := range a.Files {
		res.Files = append(res.Files, File{
			Name: string(f.Name), Path: string(f.Path), MediaType: string(f.MediaType),
		})
	}
	return res
}

func usageOf(u tree.Usage) session.Usage {
	return session.Usage{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Cost: u.Cost,
	}
}

func treeUsage(u session.Usage) tree.Usage {
	return tree.Usage{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Cost: u.Cost,
	}
}

// maxRefused is how many bytes are kept of why an answer was refused.
const maxRefused = 2000

// answerOf returns what a Runner returned as the tree records it.
func (s *Supervisor) answerOf(o TurnResult) tree.Result {
	a := tree.Result{
		Text: tree.Text(o.Result.Text), JSON: tree.Text(o.Result.JSON),
		Model: tree.Text(o.Result.Model), Usage: treeUsage(o.Result.Usage).Clean(),
		Fallback: tree.Text(o.Fallback), Reply: tree.Text(o.Reply),
		ReplyTo: tree.Text(o.ReplyTo), Voice: o.Voice,
	}
	if why := text.Bound(s.shown(o.Refused), maxRefused); why != "" {
		a.Own().Refused = tree.Text(why)
	}
	for _, f := range o.Result.Files {
		a.Files = append(a.Files, tree.File{
			Name: tree.Text(f.Name), Path: tree.Text(f.Path), MediaType: tree.Text(f.MediaType),
		})
	}
	return a
}

// completionOf returns the end of a run of a session as its requester is told of it; nil if the
// tree does not have the run. The run is named as entries and inputs name it. The caller sets the
// Nonce.
func completionOf(
	t *tree.Tree, r *tree.Run, run string, requester session.Key,
) (c *Completion, nonce uint64) {
	of, kept := r.RunOf(run)
	if !kept {
		return nil, 0
	}
	c = &Completion{
		Run: runInfoOf(t, r, &of), Requester: requester,
		Siblings: siblingsOf(r, &of), Origin: r.OriginOf(&of),
	}
	if of.Answer != nil {
		c.Fallback = string(of.Answer.Fallback)
	}
	return c, of.Nonce
}

// siblingsOf counts the runs beside r that were active when a run of r ended, and still are: they
// have not ended, and nothing has told them to.
func siblingsOf(r *tree.Run, of *tree.Past) int {
	if of.Siblings == 0 {
		return 0
	}
	active := r.Parent.Working()
	if !r.State.Terminal() && r.Cause == tree.NoCause { // it has begun another run
		active--
	}
	return min(int(of.Siblings), active)
}

// inputOf returns an input of the session to as a turn gets it.
func inputOf(t *tree.Tree, to *tree.Run, in tree.Input) Input {
	x := Input{
		Ord: int(in.Ord), Class: InputClass(in.Class), ID: givenID(in.ID), Text: string(in.Text),
		From: in.From, Time: timeOf(in.At), Route: in.Route, Percent: int(in.Percent),
		Repair: in.Repair,
	}
	if m := in.Mail; m != nil {
		x.Sender, x.Parts, x.Meta = m.Sender, slices.Clone(m.Parts), maps.Clone(m.Meta)
		if m.Sent != 0 {
			x.Time = timeOf(m.Sent)
		}
	}
	switch c := t.Run(in.From); {
	case c == nil:
	case in.Class == tree.Completion:
		var nonce uint64
		if x.Completion, nonce = completionOf(t, c, in.RunID, to.Key()); x.Completion != nil {
			x.Completion.Nonce = strconv.FormatUint(nonce, nonceBase)
		}
	case in.Class == tree.Milestone:
		x.Label = cmp.Or(c.Spec.Label(), string(c.Spec.Task))
	}
	return x
}

// nonceBase is the base in which a Nonce is written.
const nonceBase = 16

// deliveryOf returns an entry of the outbox as Deliver gets it.
func deliveryOf(t *tree.Tree, e *tree.Entry) Delivery {
	out := Delivery{
		Attempt: int(e.Tries) + 1, Epoch: t.Epoch(),
		MayRepeat: e.MayRepeat(), Late: e.Late, To: e.To,
		Blocked: timeOf(e.Blocked), Error: string(e.Error),
	}
	switch {
	case e.Reply:
		out.Reply = replyOf(e)
		out.Route = out.Reply.Route
	case e.Hook:
		out.Ended = endedOf(t, e)
	case e.Sends:
		out.Sent = sentOf(e)
	case e.Event:
		out.Event = programEvent(e)
	default:
		out.complete(t, e)
	}
	if out.Key == "" {
		out.Key = deliveryKey(t, e.Ord)
	}
	return out
}

// complete sets what a delivery has of the run that has ended, and then its Key.
func (d *Delivery) complete(t *tree.Tree, e *tree.Entry) {
	r := t.Run(e.Run)
	if r == nil {
		return
	}
	var nonce uint64
	if d.Completion, nonce = completionOf(t, r, e.RunID, e.To); d.Completion != nil {
		// The two texts are one allocation.
		var b [80]byte
		key := appendDeliveryKey(b[:0], t, e.Ord)
		both := string(strconv.AppendUint(key, nonce, nonceBase))
		d.Key, d.Completion.Nonce = both[:len(key)], both[len(key):]
	}
	d.Update = e.Update
	if at := r.RouteOf(e.RunID); at != nil {
		d.Route = *at
	}
}

// replyOf returns what a turn says to people. It shares nothing with the tree.
func replyOf(e *tree.Entry) *Reply {
	r := &Reply{
		From: e.Run, Text: string(e.Text), ReplyTo: string(e.ReplyTo), Voice: e.Voice,
		Failed: e.Failed, Err: string(e.Cause), Interim: e.Interim, Turn: int(e.Turn),
		Meta: maps.Clone(e.Meta), Senders: slices.Clone(e.Senders),
	}
	for _, id := range e.InReplyTo {
		if id = givenID(id); id != "" {
			r.InReplyTo = append(r.InReplyTo, id)
		}
	}
	if e.Route != nil {
		r.Route = *e.Route
	}
	return r
}

// deliveryKey names the entry of the outbox with an ordinal. The name stays the same over retries
// and restarts, and no two entries of any tree ever share one. The name of an entry that was added
// after a repair of the journal has the mark of the repair in it: an entry that the repair has lost
// may have had the same ordinal.
func deliveryKey(t *tree.Tree, ord uint32) string {
	var b [64]byte
	return string(appendDeliveryKey(b[:0], t, ord))
}

func appendDeliveryKey(to []byte, t *tree.Tree, ord uint32) []byte {
	to = append(append(to, t.FirstSession()...), '.')
	if mark := t.MarkOf(ord); mark != "" {
		to = append(append(to, mark...), '.')
	}
	return strconv.AppendUint(to, uint64(ord), 10)
}
