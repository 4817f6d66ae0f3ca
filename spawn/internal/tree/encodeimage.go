package tree

import (
	"strconv"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Snapshot has the parts of an Image by the thousand, so they are encoded by hand as facts are,
// member by member in the order of their fields. That takes a sixth of the time of reflection, and
// none of its 18 allocations for each run (BenchmarkSnapshot). What a tree has few of goes by
// appendValue. TestImageIsEncodedByHand fails for a member that is missing here.

// A plain value is encoded by hand and cannot fail. Its method appends the value as JSON.
type plain interface {
	appendJSON(b []byte) []byte
}

// plainOf is a pointer to a T that is encoded by hand and cannot fail.
type plainOf[T any] interface {
	*T
	plain
}

// appendObject appends a field unless v is nil.
func appendObject[T any, P plainOf[T]](b []byte, name string, v P) []byte {
	if v == nil {
		return b
	}
	return v.appendJSON(appendName(b, name))
}

// appendList appends a field unless the list is empty.
func appendList[T any, P plainOf[T]](b []byte, name string, list []T) []byte {
	if len(list) == 0 {
		return b
	}
	b = appendName(b, name)
	start := len(b)
	for i := range list {
		b = P(&list[i]).appendJSON(append(b, ','))
	}
	return closeList(b, start)
}

// A fallible value is encoded by hand. Its method appends the value as JSON. It fails for what
// [Fact.CheckJSON] refuses, and what it has appended is then of no use.
type fallible interface {
	appendJSON(b []byte) ([]byte, error)
}

// fallibleOf is a pointer to a T that is encoded by hand.
type fallibleOf[T any] interface {
	*T
	fallible
}

// appendPart appends a field unless v is nil. It does nothing if err is not nil.
func appendPart[T any, P fallibleOf[T]](b []byte, err error, name string, v P) ([]byte, error) {
	if v == nil || err != nil {
		return b, err
	}
	return v.appendJSON(appendName(b, name))
}

// appendParts appends a field unless the list is empty. It does nothing if err is not nil.
func appendParts[T any, P fallibleOf[T]](
	b []byte, err error, name string, list []T,
) ([]byte, error) {
	if len(list) == 0 || err != nil {
		return b, err
	}
	return appendElements[T, P](appendName(b, name), list)
}

// appendElements appends a list as JSON.
func appendElements[T any, P fallibleOf[T]](b []byte, list []T) (_ []byte, err error) {
	start := len(b)
	for i := range list {
		if b, err = P(&list[i]).appendJSON(append(b, ',')); err != nil {
			return b, err
		}
	}
	return closeList(b, start), nil
}

func (m *Image) appendJSON(b []byte) (_ []byte, err error) {
	start := len(b)
	b = strconv.AppendUint(appendName(b, "epoch"), m.Epoch, 10)
	b = strconv.AppendUint(appendName(b, "total"), uint64(m.Total), 10)
	b = appendUint(b, "nextOut", uint64(m.NextOut))
	if b = appendName(b, "runs"); m.Runs == nil {
		b = append(b, "null"...)
	} else {
		b, err = appendElements(b, m.Runs)
	}
	b, err = appendParts(b, err, "outbox", m.Outbox)
	b = appendList(b, "clocks", m.Clocks)
	b = appendList(b, "marks", m.Marks)
	b = appendWord(b, "firstSession", m.FirstSession)
	b, err = appendParts(b, err, "spawned", m.Spawned)
	b = appendList(b, "posts", m.Posts)
	b = appendList(b, "requests", m.Requests)
	return closeObject(b, start), err
}

func (s *RunState) appendJSON(b []byte) (_ []byte, err error) {
	start := len(b)
	if b = appendName(b, "spec"); s.Spec == nil {
		b = append(b, "null"...)
	} else {
		b, err = s.Spec.appendJSON(b)
	}
	b = strconv.AppendUint(appendName(b, "state"), uint64(s.State), 10)
	b = appendUint(b, "cause", uint64(s.Cause))
	b = appendText(b, "reason", s.Reason)
	b = appendTrue(b, "silent", s.Silent)
	b = appendTrue(b, "halted", s.TurnCancelled)
	b = appendTrue(b, "quiet", s.Quiet)
	b = appendTrue(b, "retry", s.Retry)
	if len(s.Crashes) > 0 {
		b, err = appendValue(b, err, "crashes", s.Crashes)
	}
	b, err = appendPart(b, err, "open", s.Open)
	b = appendUint(b, "turns", uint64(s.Turns))
	b = appendUint(b, "nextOrd", uint64(s.NextOrd))
	b = appendUint(b, "consumed", uint64(s.Consumed))
	b = appendUint(b, "aside", uint64(s.Aside))
	b, err = appendParts(b, err, "inbox", s.Inbox)
	b = appendObject(b, "join", s.Join)
	b = appendUint(b, "missed", uint64(s.Missed))
	b = appendUint(b, "waits", uint64(s.Waits))
	b, err = appendPart(b, err, "answer", s.Answer)
	b, err = appendUsage(b, err, "usage", &s.Usage)
	b = appendBudget(b, "charged", s.Charged)
	b = appendRoute(b, "route", s.Route)
	b = appendUint(b, "pos", s.Pos)
	b = appendInt(b, "started", s.Started)
	b = appendInt(b, "deadline", s.Deadline)
	b = appendInt(b, "grace", s.Grace)
	b = appendInt(b, "ended", s.Ended)
	b = appendInt(b, "archiveFrom", s.ArchiveFrom)
	b = appendUint(b, "nonce", s.Nonce)
	b = appendUint(b, "siblings", uint64(s.Siblings))
	b = appendUint(b, "spawned", uint64(s.Spawned))
	b = appendWord(b, "request", s.Request)
	b = appendList(b, "steers", s.Steers)
	if s.Skills != nil {
		b, err = appendValue(b, err, "skills", s.Skills)
	}
	b, err = appendPart(b, err, "ledger", s.Ledger)
	b = appendInt(b, "active", s.Active)
	b, err = s.appendTalk(b, err)
	b, err = s.appendLater(b, err)
	return closeObject(b, start), err
}

// appendTalk appends the fields of s that say whom it answers, and what it may be asked again.
func (s *RunState) appendTalk(b []byte, err error) ([]byte, error) {
	b, err = appendParts(b, err, "askedBy", s.Asked)
	if len(s.Said) > 0 {
		b, err = appendValue(b, err, "said", s.Said)
	}
	b, err = appendPart(b, err, "asked", s.WasAsked)
	b = appendRoute(b, "home", s.Home)
	if len(s.Former) > 0 {
		b, err = appendValue(b, err, "former", s.Former)
	}
	if len(s.Deposits) > 0 {
		b, err = appendValue(b, err, "deposits", s.Deposits)
	}
	return b, err
}

// appendLater appends the fields of s that come last, most of which say what becomes of the session
// after its first run.
func (s *RunState) appendLater(b []byte, err error) ([]byte, error) {
	b = appendUint(b, "milestones", uint64(s.Milestones))
	b = appendText(b, "kept", s.Kept)
	b = appendObject(b, "begin", s.Begin)
	b, err = appendParts(b, err, "past", s.Past)
	b = appendList(b, "bound", s.Bound)
	b = appendInt(b, "archiving", s.Archiving)
	b = appendTrue(b, "announce", s.Announce)
	b = appendTrue(b, "discard", s.Discard)
	b = appendUint(b, "repairs", uint64(s.Repairs))
	b = appendTrue(b, "unnamed", s.Unnamed)
	b = appendObject(b, "announced", s.Announced)
	return appendSenders(b, "senders", s.Senders), err
}

func (in *Input) appendJSON(b []byte) (_ []byte, err error) {
	start := len(b)
	b = strconv.AppendUint(appendName(b, "ord"), uint64(in.Ord), 10)
	b = strconv.AppendUint(appendName(b, "class"), uint64(in.Class), 10)
	b = strconv.AppendInt(appendName(b, "at"), in.At, 10)
	b = appendWord(b, "id", in.ID)
	b = appendText(b, "text", in.Text)
	b = appendWord(b, "from", in.From.String())
	b = appendRoute(b, "route", in.Route)
	if in.Mail != nil {
		b, err = appendValue(b, err, "mail", in.Mail)
	}
	b = appendUint(b, "percent", uint64(in.Percent))
	b = appendWord(b, "runId", in.RunID)
	b = appendTrue(b, "thread", in.Thread)
	b = appendTrue(b, "repair", in.Repair)
	b = appendSenders(b, "senders", in.Senders)
	return closeObject(b, start), err
}

func (o *OpenTurn) appendJSON(b []byte) (_ []byte, err error) {
	start := len(b)
	b = strconv.AppendUint(appendName(b, "n"), uint64(o.N), 10)
	b = strconv.AppendUint(appendName(b, "through"), uint64(o.Through), 10)
	b = strconv.AppendUint(appendName(b, "first"), uint64(o.First), 10)
	b = appendBudget(b, "reserve", o.Reserve)
	b = strconv.AppendInt(appendName(b, "started"), o.Started, 10)
	b = appendTrue(b, "shutdown", o.Shutdown)
	b = appendTrue(b, "compact", o.Compact)
	b = appendTrue(b, "step", o.Step)
	b = appendInt(b, "until", o.Until)
	if len(o.Shares) > 0 {
		b, err = appendValue(b, err, "shares", o.Shares)
	}
	b = appendObject(b, "wait", o.Wait)
	b = appendTrue(b, "empty", o.Empty)
	return closeObject(b, start), err
}

func (j *Join) appendJSON(b []byte) []byte {
	start := len(b)
	if len(j.Keys) > 0 {
		b = appendName(b, "keys")
		list := len(b)
		for _, k := range j.Keys {
			b = appendString(append(b, ','), k.String())
		}
		b = closeList(b, list)
	}
	b = appendStrings(b, "runs", j.Runs)
	b = appendUint(b, "need", uint64(j.Need))
	b = appendInt(b, "until", j.Until)
	b = appendInt(b, "within", j.Within)
	b = appendTrue(b, "byModel", j.ByModel)
	b = appendUint(b, "rest", uint64(j.Rest))
	b = strconv.AppendUint(appendName(b, "left"), uint64(j.Left), 10)
	b = strconv.AppendUint(appendName(b, "good"), uint64(j.Good), 10)
	b = appendSenders(b, "senders", j.Senders)
	b = appendRoute(b, "at", j.At)
	b = appendTrue(b, "passed", j.Passed)
	return closeObject(b, start)
}

func (l *Ledger) appendJSON(b []byte) ([]byte, error) {
	start := len(b)
	b, err := appendParts(b, nil, "own", l.Own)
	b, err = appendParts(b, err, "below", l.Below)
	return closeObject(b, start), err
}

func (s *UsageSeries) appendJSON(b []byte) (_ []byte, err error) {
	start := len(b)
	b = appendWord(b, "agent", s.Agent)
	b = appendText(b, "model", s.Model)
	b, err = appendParts(b, err, "days", s.Days)
	b, err = appendParts(b, err, "quarters", s.Quarters)
	return closeObject(b, start), err
}

func (r *UsageRow) appendJSON(b []byte) ([]byte, error) {
	start := len(b)
	b = strconv.AppendUint(appendName(b, "n"), uint64(r.N), 10)
	b, err := r.appendFields(b)
	return closeObject(b, start), err
}

func (a *Asked) appendJSON(b []byte) (_ []byte, err error) {
	start := len(b)
	b = appendStrings(b, "ids", a.IDs)
	if len(a.Meta) > 0 {
		b, err = appendValue(b, err, "meta", a.Meta)
	}
	b = appendRoute(b, "route", a.Route)
	b = appendRoute(b, "at", a.At)
	return closeObject(b, start), err
}

func (s *Steered) appendJSON(b []byte) []byte {
	start := len(b)
	b = appendString(appendName(b, "from"), s.From.String())
	b = strconv.AppendInt(appendName(b, "at"), s.At, 10)
	return closeObject(b, start)
}

func (x *Begin) appendJSON(b []byte) []byte {
	start := len(b)
	b = appendString(appendName(b, "id"), x.ID)
	b = strconv.AppendUint(appendName(b, "ord"), uint64(x.Ord), 10)
	b = appendWord(b, "from", x.From.String())
	b = appendTrue(b, "announce", x.Announce)
	b = appendTrue(b, "thread", x.Thread)
	b = appendWord(b, "request", x.Request)
	b = appendTrue(b, "byModel", x.ByModel)
	b = appendRoute(b, "route", x.Route)
	b = strconv.AppendInt(appendName(b, "created"), x.Created, 10)
	return closeObject(b, start)
}

func (p *Past) appendJSON(b []byte) (_ []byte, err error) {
	start := len(b)
	b = appendObject(b, "begin", p.Begin)
	b = strconv.AppendUint(appendName(b, "state"), uint64(p.State), 10)
	b = appendUint(b, "cause", uint64(p.Cause))
	b = appendText(b, "reason", p.Reason)
	b = appendTrue(b, "silent", p.Silent)
	b = appendUint(b, "missed", uint64(p.Missed))
	b = appendTrue(b, "quiet", p.Quiet)
	b = appendTrue(b, "announce", p.Announce)
	b, err = appendPart(b, err, "answer", p.Answer)
	b, err = appendUsage(b, err, "usage", &p.Usage)
	b = appendUint(b, "nonce", p.Nonce)
	b = appendUint(b, "siblings", uint64(p.Siblings))
	b = appendUint(b, "turns", uint64(p.Turns))
	b = appendInt(b, "started", p.Started)
	b = appendInt(b, "deadline", p.Deadline)
	b = appendInt(b, "ended", p.Ended)
	b = appendObject(b, "announced", p.Announced)
	b = appendSenders(b, "senders", p.Senders)
	return closeObject(b, start), err
}

func (c *Conversation) appendJSON(b []byte) []byte {
	start := len(b)
	b = appendRoute(b, "route", &c.Route)
	b = strconv.AppendInt(appendName(b, "at"), c.At, 10)
	return closeObject(b, start)
}

func (a *Announcement) appendJSON(b []byte) []byte {
	start := len(b)
	b = appendText(b, "text", a.Text)
	b = appendTrue(b, "silent", a.Silent)
	return closeObject(b, start)
}

func (e *Entry) appendJSON(b []byte) (_ []byte, err error) {
	start := len(b)
	b = strconv.AppendUint(appendName(b, "ord"), uint64(e.Ord), 10)
	b = appendString(appendName(b, "run"), e.Run.String())
	b = appendString(appendName(b, "to"), e.To.String())
	b = appendWord(b, "runId", e.RunID)
	b = appendTrue(b, "reply", e.Reply)
	b = appendTrue(b, "hook", e.Hook)
	b = appendTrue(b, "event", e.Event)
	b = appendTrue(b, "sends", e.Sends)
	b = appendTrue(b, "update", e.Update)
	b = appendTrue(b, "failed", e.Failed)
	b = appendText(b, "cause", e.Cause)
	b = appendText(b, "text", e.Text)
	b = appendText(b, "replyTo", e.ReplyTo)
	b = appendTrue(b, "voice", e.Voice)
	b = appendTrue(b, "interim", e.Interim)
	b = appendUint(b, "turn", uint64(e.Turn))
	b = appendStrings(b, "inReplyTo", e.InReplyTo)
	if len(e.Meta) > 0 {
		b, err = appendValue(b, err, "meta", e.Meta)
	}
	b = appendRoute(b, "route", e.Route)
	b = appendSenders(b, "senders", e.Senders)
	b = strconv.AppendInt(appendName(b, "created"), e.Created, 10)
	b = appendInt(b, "since", e.Since)
	b = appendUint(b, "tries", uint64(e.Tries))
	b = appendInt(b, "due", e.Due)
	b = appendInt(b, "wait", e.Wait)
	b = appendInt(b, "blocked", e.Blocked)
	b = appendText(b, "error", e.Error)
	b = appendTrue(b, "busy", e.Busy)
	b = appendTrue(b, "late", e.Late)
	b = appendTrue(b, "unsent", e.Unsent)
	return closeObject(b, start), err
}

func (c *Clock) appendJSON(b []byte) []byte {
	start := len(b)
	b = strconv.AppendUint(appendName(b, "ord"), uint64(c.Ord), 10)
	b = strconv.AppendInt(appendName(b, "since"), c.Since, 10)
	return closeObject(b, start)
}

func (m *Mark) appendJSON(b []byte) []byte {
	start := len(b)
	b = strconv.AppendUint(appendName(b, "ord"), uint64(m.Ord), 10)
	b = appendString(appendName(b, "id"), m.ID)
	return closeObject(b, start)
}

func (s *Spawned) appendJSON(b []byte) (_ []byte, err error) {
	start := len(b)
	b = appendString(appendName(b, "parent"), s.Parent.String())
	b = appendString(appendName(b, "key"), s.Key)
	b = appendTrue(b, "byModel", s.ByModel)
	b = appendString(appendName(b, "run"), s.Run.String())
	b = appendString(appendName(b, "id"), s.ID)
	b = appendWord(b, "digest", s.Digest)
	b = strconv.AppendInt(appendName(b, "until"), s.Until, 10)
	b, err = appendPart(b, err, "spec", s.Spec)
	b, err = appendPart(b, err, "end", s.End)
	return closeObject(b, start), err
}

func (p *SeenPost) appendJSON(b []byte) []byte {
	start := len(b)
	b = appendString(appendName(b, "to"), p.To.String())
	b = appendString(appendName(b, "id"), p.ID)
	b = strconv.AppendInt(appendName(b, "until"), p.Until, 10)
	b = appendWord(b, "runId", p.RunID)
	b = appendRoute(b, "at", p.At)
	b = appendUint(b, "how", uint64(p.How))
	return closeObject(b, start)
}

func (c *RequestCount) appendJSON(b []byte) []byte {
	start := len(b)
	b = appendString(appendName(b, "request"), c.Request)
	b = strconv.AppendUint(appendName(b, "byModel"), uint64(c.ByModel), 10)
	b = appendBudget(b, "charged", c.Charged)
	b = appendTrue(b, "uncharged", c.Uncharged)
	return closeObject(b, start)
}

// appendRoute appends a field unless r is nil.
func appendRoute(b []byte, name string, r *session.Route) []byte {
	if r == nil {
		return b
	}
	b = appendName(b, name)
	start := len(b)
	b = appendWord(b, "channel", r.Channel)
	b = appendWord(b, "account", r.Account)
	b = appendWord(b, "to", r.To)
	b = appendWord(b, "thread", r.Thread)
	return closeObject(b, start)
}

// appendSenders appends a field unless the list is empty.
func appendSenders(b []byte, name string, list []policy.Sender) []byte {
	if len(list) == 0 {
		return b
	}
	b = appendName(b, name)
	start := len(b)
	for i := range list {
		s := &list[i]
		b = append(b, ',')
		from := len(b)
		b = appendWord(b, "id", s.ID)
		b = appendWord(b, "channel", s.Channel)
		b = appendWord(b, "peer", s.Peer)
		b = appendTrue(b, "owner", s.Owner)
		b = closeObject(b, from)
	}
	return closeList(b, start)
}
