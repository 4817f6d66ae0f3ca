package tree

import (
	"bytes"
	"slices"
)

func (s *scanner) image() *Image {
	s.shared.once = true
	defer func() { s.shared.once = false }()
	m := new(Image)
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "epoch":
			m.Epoch = s.uint64()
		case "total":
			m.Total = s.uint32()
		case "nextOut":
			m.NextOut = s.uint32()
		case "runs":
			m.Runs = s.runs()
		case "outbox":
			m.Outbox = scanList(s, (*scanner).entry)
		case "clocks":
			m.Clocks = scanList(s, (*scanner).clock)
		case "marks":
			m.Marks = scanList(s, (*scanner).mark)
		case "firstSession":
			m.FirstSession = s.string()
		case "spawned":
			m.Spawned = scanList(s, (*scanner).spawned)
		case "posts":
			m.Posts = scanList(s, (*scanner).seenPost)
		case "requests":
			m.Requests = scanList(s, (*scanner).requestCount)
		default:
			s.fail()
		}
	}
	return m
}

// minRunBytes is less than any run takes as JSON.
const minRunBytes = 128

// runs reads the runs of an image.
func (s *scanner) runs() []RunState {
	if s.literal("null") {
		return nil
	}
	if !s.first() {
		return []RunState{}
	}
	return s.runsApart(s.cutRuns(s.parts))
}

// minPartBytes is the least size of a part that is read apart from the others.
const minPartBytes = 1 << 20

// betweenRuns is the end of a run and the beginning of the next one. It is not in a string, where a
// quotation mark has a backslash before it, and nothing else begins like a run.
var betweenRuns = []byte(`},{"spec":{"`)

// cutRuns returns where up to n-1 runs begin that cut the list of runs, from the first run on, into
// parts of about the same size.
func (s *scanner) cutRuns(n int) (cuts []int) {
	left := len(s.data) - s.pos
	step := max(left/max(n, 1), minPartBytes)
	for from := s.pos + step; from < len(s.data); from = cuts[len(cuts)-1] + step {
		at := bytes.Index(s.data[from:], betweenRuns)
		if at < 0 {
			break
		}
		cuts = append(cuts, from+at+len("},"))
	}
	return cuts
}

// runsApart reads the list of runs, from its first run on, in the parts that begin at cuts. Each
// part keeps by itself what its runs have in common.
func (s *scanner) runsApart(cuts []int) []RunState {
	if len(cuts) == 0 {
		return s.runsToBracket()
	}
	parts := make([]scanner, len(cuts))
	lists := make([][]RunState, len(cuts)+1)
	work := make([]func(), len(cuts)+1)
	for i, end := range cuts {
		parts[i] = scanner{data: s.data[:end-len(",")], pos: s.pos, shared: &shared{once: true}}
		work[i] = func() { lists[i] = parts[i].runsToEnd() }
		s.pos = end
	}
	work[len(cuts)] = func() { lists[len(cuts)] = s.runsToBracket() }
	s.apart(work)
	for i := range parts {
		if parts[i].failed {
			s.fail()
		}
	}
	return slices.Concat(lists...)
}

// runsToBracket reads runs up to the end of their list.
func (s *scanner) runsToBracket() []RunState {
	list := s.makeRuns()
	for ok := true; ok; ok = s.another() {
		list = append(list, RunState{})
		s.run(&list[len(list)-1])
	}
	return list
}

// makeRuns returns an empty list with room for what is left.
func (s *scanner) makeRuns() []RunState {
	return make([]RunState, 0, 1+(len(s.data)-s.pos)/minRunBytes/4)
}

// runsToEnd reads runs up to the end of the data.
func (s *scanner) runsToEnd() []RunState {
	list := s.makeRuns()
	for !s.failed {
		list = append(list, RunState{})
		s.run(&list[len(list)-1])
		if s.pos == len(s.data) {
			break
		}
		s.need(',')
	}
	return list
}

func (s *scanner) run(r *RunState) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "spec":
			r.Spec = s.spec()
		case "state":
			r.State = State(s.uint8())
		case "cause":
			r.Cause = Cause(s.uint8())
		case "reason":
			r.Reason = s.text()
		case "silent":
			r.Silent = s.bool()
		case "halted":
			r.TurnCancelled = s.bool()
		case "quiet":
			r.Quiet = s.bool()
		case "retry":
			r.Retry = s.bool()
		case "open":
			r.Open = s.openTurn()
		case "turns":
			r.Turns = s.uint32()
		case "nextOrd":
			r.NextOrd = s.uint32()
		case "consumed":
			r.Consumed = s.uint32()
		case "aside":
			r.Aside = s.uint32()
		case "inbox":
			r.Inbox = scanList(s, (*scanner).input)
		case "join":
			r.Join = s.join()
		case "answer":
			r.Answer = s.result()
		default:
			s.runPart(r, name)
		}
	}
}

// runPart reads a member of a run's state that is an amount or a time, or comes last.
func (s *scanner) runPart(r *RunState, name []byte) {
	switch string(name) {
	case "usage":
		r.Usage = s.usage()
	case "charged":
		r.Charged = s.budget()
	case "route":
		r.Route = s.route()
	case "pos":
		r.Pos = s.uint64()
	case "started":
		r.Started = s.int64()
	case "deadline":
		r.Deadline = s.int64()
	case "grace":
		r.Grace = s.int64()
	case "ended":
		r.Ended = s.int64()
	case "nonce":
		r.Nonce = s.uint64()
	case "siblings":
		r.Siblings = s.uint32()
	case "spawned":
		r.Spawned = s.uint32()
	case "steers":
		r.Steers = scanList(s, (*scanner).steered)
	case "crashes":
		r.Crashes = scanList(s, (*scanner).uint32)
	case "archiveFrom":
		r.ArchiveFrom = s.int64()
	case "request":
		r.Request = s.word()
	case "waits":
		r.Waits = s.uint32()
	case "skills":
		r.Skills = s.skillSet()
	case "ledger":
		r.Ledger = s.ledger()
	case "active":
		r.Active = s.int64()
	case "asked":
		asked := s.asked()
		r.WasAsked = &asked
	case "askedBy":
		r.Asked = scanList(s, (*scanner).asked)
	case "said":
		r.Said = scanList(s, (*scanner).saying)
	case "former":
		r.Former = scanList(s, (*scanner).former)
	case "milestones":
		r.Milestones = s.uint32()
	default:
		s.laterPart(r, name)
	}
}

// laterPart reads a member of a run's state that says what becomes of the session after its first
// run.
func (s *scanner) laterPart(r *RunState, name []byte) {
	switch string(name) {
	case "begin":
		r.Begin = s.begun()
	case "past":
		r.Past = scanList(s, (*scanner).past)
	case "bound":
		r.Bound = scanList(s, (*scanner).conversation)
	case "archiving":
		r.Archiving = s.int64()
	case "announce":
		r.Announce = s.bool()
	case "discard":
		r.Discard = s.bool()
	case "home":
		r.Home = s.route()
	case "kept":
		r.Kept = s.text()
	case "repairs":
		r.Repairs = s.uint8()
	case "missed":
		r.Missed = s.uint32()
	case "unnamed":
		r.Unnamed = s.bool()
	case "announced":
		r.Announced = s.announcement()
	case "senders":
		r.Senders = scanList(s, (*scanner).policySender)
	case "deposits":
		r.Deposits = scanList(s, (*scanner).deposit)
	default:
		s.fail()
	}
}

func (s *scanner) begun() *Begin {
	x := new(Begin)
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "id":
			x.ID = s.string()
		case "ord":
			x.Ord = s.uint32()
		case "from":
			x.From = s.key()
		case "announce":
			x.Announce = s.bool()
		case "thread":
			x.Thread = s.bool()
		case "request":
			x.Request = s.word()
		case "byModel":
			x.ByModel = s.bool()
		case "route":
			x.Route = s.route()
		case "created":
			x.Created = s.int64()
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) past() (x Past) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "begin":
			x.Begin = s.begun()
		case "state":
			x.State = State(s.uint8())
		case "cause":
			x.Cause = Cause(s.uint8())
		case "reason":
			x.Reason = s.text()
		case "silent":
			x.Silent = s.bool()
		case "missed":
			x.Missed = s.uint32()
		case "quiet":
			x.Quiet = s.bool()
		case "announce":
			x.Announce = s.bool()
		case "answer":
			x.Answer = s.result()
		case "usage":
			x.Usage = s.usage()
		case "nonce":
			x.Nonce = s.uint64()
		case "siblings":
			x.Siblings = s.uint32()
		case "turns":
			x.Turns = s.uint32()
		case "started":
			x.Started = s.int64()
		case "deadline":
			x.Deadline = s.int64()
		case "ended":
			x.Ended = s.int64()
		case "announced":
			x.Announced = s.announcement()
		case "senders":
			x.Senders = scanList(s, (*scanner).policySender)
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) announcement() *Announcement {
	a := new(Announcement)
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "text":
			a.Text = s.text()
		case "silent":
			a.Silent = s.bool()
		default:
			s.fail()
		}
	}
	return a
}

func (s *scanner) conversation() (x Conversation) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "route":
			if r := s.route(); r != nil {
				x.Route = *r
			}
		case "at":
			x.At = s.int64()
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) ledger() *Ledger {
	l := new(Ledger)
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "own":
			l.Own = scanList(s, (*scanner).usageSeries)
		case "below":
			l.Below = scanList(s, (*scanner).usageSeries)
		default:
			s.fail()
		}
	}
	return l
}

func (s *scanner) usageSeries() (x UsageSeries) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "agent":
			x.Agent = s.word()
		case "model":
			x.Model = s.sharedText()
		case "days":
			x.Days = scanList(s, (*scanner).usageRow)
		case "quarters":
			x.Quarters = scanList(s, (*scanner).usageRow)
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) usageRow() (x UsageRow) {
	for name := s.begin(); name != nil; name = s.more() {
		if string(name) == "n" {
			x.N = s.uint32()
			continue
		}
		s.usagePart(&x.Usage, name)
	}
	return x
}

func (s *scanner) former() (x Former) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "id":
			x.ID = s.string()
		case "pos":
			x.Pos = s.uint64()
		case "ord":
			x.Ord = s.uint32()
		case "at":
			x.At = s.int64()
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) deposit() (x Deposit) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "run":
			x.Run = s.key()
		case "at":
			x.At = s.int64()
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) openTurn() *OpenTurn {
	o := new(OpenTurn)
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "n":
			o.N = s.uint32()
		case "through":
			o.Through = s.uint32()
		case "first":
			o.First = s.uint32()
		case "reserve":
			o.Reserve = s.budget()
		case "started":
			o.Started = s.int64()
		case "shutdown":
			o.Shutdown = s.bool()
		case "compact":
			o.Compact = s.bool()
		case "step":
			o.Step = s.bool()
		case "until":
			o.Until = s.int64()
		case "wait":
			o.Wait = s.join()
		case "empty":
			o.Empty = s.bool()
		case "shares":
			o.Shares = scanList(s, (*scanner).share)
		default:
			s.fail()
		}
	}
	return o
}

func (s *scanner) share() (x Share) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "request":
			x.Request = s.string()
		case "reserve":
			x.Reserve = s.budget()
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) steered() (x Steered) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "from":
			x.From = s.key()
		case "at":
			x.At = s.int64()
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) entry() (e Entry) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "ord":
			e.Ord = s.uint32()
		case "run":
			e.Run = s.key()
		case "to":
			e.To = s.key()
		case "runId":
			e.RunID = s.string()
		case "reply":
			e.Reply = s.bool()
		case "hook":
			e.Hook = s.bool()
		case "event":
			e.Event = s.bool()
		case "sends":
			e.Sends = s.bool()
		case "update":
			e.Update = s.bool()
		case "failed":
			e.Failed = s.bool()
		case "cause":
			e.Cause = s.text()
		case "text":
			e.Text = s.text()
		case "replyTo":
			e.ReplyTo = s.text()
		case "voice":
			e.Voice = s.bool()
		case "interim":
			e.Interim = s.bool()
		case "turn":
			e.Turn = s.uint32()
		case "inReplyTo":
			e.InReplyTo = scanList(s, (*scanner).string)
		case "meta":
			e.Meta = s.texts()
		case "route":
			e.Route = s.route()
		case "created":
			e.Created = s.int64()
		case "since":
			e.Since = s.int64()
		case "tries":
			e.Tries = s.uint32()
		case "due":
			e.Due = s.int64()
		case "wait":
			e.Wait = s.int64()
		case "blocked":
			e.Blocked = s.int64()
		case "error":
			e.Error = s.text()
		case "busy":
			e.Busy = s.bool()
		case "late":
			e.Late = s.bool()
		case "unsent":
			e.Unsent = s.bool()
		case "senders":
			e.Senders = scanList(s, (*scanner).policySender)
		default:
			s.fail()
		}
	}
	return e
}

func (s *scanner) spawned() (x Spawned) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "parent":
			x.Parent = s.key()
		case "key":
			x.Key = s.string()
		case "byModel":
			x.ByModel = s.bool()
		case "run":
			x.Run = s.key()
		case "id":
			x.ID = s.string()
		case "digest":
			x.Digest = s.string()
		case "until":
			x.Until = s.int64()
		case "spec":
			x.Spec = s.spec()
		case "end":
			x.End = s.endOf()
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) endOf() *Past {
	x := s.past()
	return &x
}

func (s *scanner) requestCount() (x RequestCount) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "request":
			x.Request = s.word()
		case "byModel":
			x.ByModel = s.uint32()
		case "charged":
			x.Charged = s.budget()
		case "uncharged":
			x.Uncharged = s.bool()
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) mark() (m Mark) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "ord":
			m.Ord = s.uint32()
		case "id":
			m.ID = s.word()
		default:
			s.fail()
		}
	}
	return m
}

func (s *scanner) clock() (c Clock) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "ord":
			c.Ord = s.uint32()
		case "since":
			c.Since = s.int64()
		default:
			s.fail()
		}
	}
	return c
}

func (s *scanner) seenPost() (x SeenPost) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "to":
			x.To = s.key()
		case "id":
			x.ID = s.string()
		case "until":
			x.Until = s.int64()
		case "runId":
			x.RunID = s.string()
		case "at":
			x.At = s.route()
		case "how":
			x.How = s.uint8()
		default:
			s.fail()
		}
	}
	return x
}
