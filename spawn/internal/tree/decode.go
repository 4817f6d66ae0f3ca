package tree

import (
	"bytes"
	"slices"

	"github.com/offshoot-sdk/offshoot/session"
)

// A Decoder decodes the facts of one tree, one after the other. What the facts have in common, such
// as keys and grants, is in memory once. The zero value is ready. A Decoder is not safe for
// concurrent use.
//
// Facts are decoded by hand, member by member, and by encoding/json where they are not written as
// [Fact.AppendJSON] writes them. That takes about a tenth of the time of reflection, which a tree
// with 200,000 runs needs to be opened in (BenchmarkRestart in package spawn).
type Decoder struct {
	// Apart calls functions that may run at the same time, and returns when they have returned. A
	// large image is read in as many parts as Parts says, so. If it is nil there is one part.
	Apart func([]func())
	Parts int

	shared shared
	fact   Fact // the last one that was decoded by hand
}

// Fact returns the fact in a journal entry: the payload itself if the journal kept it in memory,
// else the decoded one, which is valid until the next call. The errors are those of [DecodeFact].
func (d *Decoder) Fact(p session.Payload) (*Fact, error) {
	raw, ok := p.(session.Raw)
	if !ok {
		return FactOf(p)
	}
	if !d.scan(raw) {
		return DecodeFact(raw)
	}
	if err := d.fact.check(); err != nil {
		return nil, err
	}
	return &d.fact, nil
}

// scan decodes a fact by hand. It returns false for one that encoding/json is to decode.
func (d *Decoder) scan(data []byte) bool {
	s := &scanner{data: data, shared: &d.shared, apart: d.Apart}
	if d.Apart != nil {
		s.parts = d.Parts
	}
	d.fact = Fact{}
	return s.fact(&d.fact) && !s.failed && s.pos == len(data)
}

// fact returns false for a fact that is not of a version or a kind that this library knows.
func (s *scanner) fact(f *Fact) bool {
	version := uint64(0)
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "v":
			version = s.uint(Version)
		case "kind":
			f.Kind = kindOf(s.word())
		case "at":
			f.At = s.int64()
		case "run":
			f.Run = s.key()
		case "state":
			f.State = State(s.uint8())
		case "cause":
			f.Cause = Cause(s.uint8())
		case "class":
			f.Class = Class(s.uint8())
		case "flags":
			f.Flags = Flags(s.uint16())
		case "n":
			f.N = s.uint32()
		case "ord":
			f.Ord = s.uint32()
		case "until":
			f.Until = s.int64()
		case "num":
			f.Num = s.uint64()
		default:
			s.factPart(f, name)
		}
	}
	return version > 0 && f.Kind > 0
}

// factPart reads a member of a fact that is more than a number.
func (s *scanner) factPart(f *Fact, name []byte) {
	switch string(name) {
	case "id":
		f.ID = s.string()
	case "text":
		f.Text = s.text()
	case "from":
		f.From = s.key()
	case "budget":
		f.Budget = s.budget()
	case "spec":
		f.Spec = s.spec()
	case "answer":
		f.Answer = s.result()
	case "join":
		f.Join = s.join()
	case "route":
		f.Route = s.route()
	case "image":
		f.Image = s.image()
	default:
		s.fail()
	}
}

func (s *scanner) budget() (b Budget) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "tokens":
			b.Tokens = s.int64()
		case "micros":
			b.Micros = s.int64()
		case "turns":
			b.Turns = s.int64()
		default:
			s.fail()
		}
	}
	return b
}

func (s *scanner) spec() *Spec {
	if s.literal("null") {
		return nil
	}
	spec := s.shared.specs.next()
	var g Grant
	granted := false
	var id []byte
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "id":
			id = s.bytes()
		case "sessionId":
			spec.SessionID = s.string()
		case "key":
			spec.Key = s.key()
		case "parent":
			spec.Parent = s.key()
		case "spawnKey":
			spec.SpawnKey = s.string()
		case "digest":
			spec.Digest = s.string()
		case "request":
			spec.Request = s.word()
		case "byModel":
			spec.ByModel = s.bool()
		case "task":
			spec.Task = s.text()
		case "label":
			spec.Label = s.string()
		case "announce":
			spec.Announce = s.bool()
		case "extra":
			spec.Extra = s.base64()
		case "route":
			spec.Route = s.route()
		case "created":
			spec.Created = s.int64()
		default:
			granted = true
			s.grantPart(&g, name)
		}
	}
	if k := spec.Key.String(); len(id) < len(k) && k[len(k)-len(id):] == string(id) {
		spec.ID = k[len(k)-len(id):] // one string in memory for both
	} else {
		spec.ID = string(id)
	}
	if granted {
		spec.Grant = s.shared.grantOf(&g)
	}
	return spec
}

// grantPart reads a member of the grant in a spec.
func (s *scanner) grantPart(g *Grant, name []byte) {
	switch string(name) {
	case "agent":
		g.Agent = s.word()
	case "role":
		if g.Role.UnmarshalText(s.bytes()) != nil {
			s.fail()
		}
	case "depth":
		g.Depth = s.int()
	case "maxDepth":
		g.MaxDepth = s.int()
	case "sandboxed":
		g.Sandboxed = s.bool()
	case "tools":
		g.Tools = s.wordList()
	case "delegable":
		g.Delegable = s.wordList()
	case "asked":
		g.Asked = s.word()
	case "model":
		g.Model = s.word()
	case "thinking":
		g.Thinking = s.word()
	case "warnings":
		g.Warnings = s.wordList()
	case "timeout":
		g.Timeout = s.int64()
	case "budget":
		g.Budget = s.budget()
	default:
		s.fail()
	}
}

func (s *scanner) wordList() (list []string) {
	list = []string{}
	for ok := s.first(); ok; ok = s.another() {
		list = append(list, s.word())
	}
	return list
}

func (s *scanner) result() *Result {
	a := s.shared.answers.next()
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "text":
			a.Text = s.text()
		case "json":
			a.JSON = s.text()
		case "files":
			a.Files = scanList(s, (*scanner).file)
		case "model":
			a.Model = s.text()
		case "usage":
			a.Usage = s.usage()
		case "fallback":
			a.Fallback = s.text()
		case "reply":
			a.Reply = s.text()
		default:
			s.fail()
		}
	}
	return a
}

// scanList reads a list.
func scanList[T any](s *scanner, element func(*scanner) T) (list []T) {
	list = []T{}
	for ok := s.first(); ok; ok = s.another() {
		list = append(list, element(s))
	}
	return list
}

func (s *scanner) file() (f File) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "name":
			f.Name = s.text()
		case "path":
			f.Path = s.text()
		case "mediaType":
			f.MediaType = s.text()
		default:
			s.fail()
		}
	}
	return f
}

func (s *scanner) usage() (u Usage) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "input":
			u.Input = s.int64()
		case "output":
			u.Output = s.int64()
		case "cacheRead":
			u.CacheRead = s.int64()
		case "cacheWrite":
			u.CacheWrite = s.int64()
		case "cost":
			u.Cost = s.float()
		default:
			s.fail()
		}
	}
	return u
}

func (s *scanner) join() *Join {
	j := new(Join)
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "keys":
			j.Keys = scanList(s, (*scanner).key)
		case "need":
			j.Need = s.uint32()
		case "until":
			j.Until = s.int64()
		case "within":
			j.Within = s.int64()
		case "byModel":
			j.ByModel = s.bool()
		case "left":
			j.Left = s.uint32()
		case "good":
			j.Good = s.uint32()
		default:
			s.fail()
		}
	}
	return j
}

func (s *scanner) route() *session.Route {
	var r session.Route
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "channel":
			r.Channel = s.word()
		case "account":
			r.Account = s.word()
		case "to":
			r.To = s.word()
		case "thread":
			r.Thread = s.word()
		default:
			s.fail()
		}
	}
	return s.shared.routeOf(r)
}

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
	default:
		s.fail()
	}
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
		default:
			s.fail()
		}
	}
	return o
}

func (s *scanner) input() (in Input) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "ord":
			in.Ord = s.uint32()
		case "class":
			in.Class = Class(s.uint8())
		case "at":
			in.At = s.int64()
		case "id":
			in.ID = s.string()
		case "text":
			in.Text = s.text()
		case "from":
			in.From = s.key()
		case "route":
			in.Route = s.route()
		default:
			s.fail()
		}
	}
	return in
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
		case "reply":
			e.Reply = s.bool()
		case "failed":
			e.Failed = s.bool()
		case "text":
			e.Text = s.text()
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
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) requestCount() (x RequestCount) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "request":
			x.Request = s.word()
		case "byModel":
			x.ByModel = s.uint32()
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
		default:
			s.fail()
		}
	}
	return x
}
