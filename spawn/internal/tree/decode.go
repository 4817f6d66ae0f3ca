package tree

import (
	"github.com/offshoot-sdk/offshoot/policy"
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
	fact   Fact     // the last one that was decoded by hand
	more   FactMore // of it
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
	d.fact, d.more = Fact{FactMore: &d.more}, FactMore{}
	ok := s.fact(&d.fact)
	if d.more.isZero() {
		d.fact.FactMore = nil
	}
	return ok && !s.failed && s.pos == len(data)
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

// factPart reads a member of a fact, which has a FactMore, that is more than a number.
func (s *scanner) factPart(f *Fact, name []byte) {
	switch string(name) {
	case "id":
		f.FactMore.ID = s.string()
	case "text":
		f.Text = s.text()
	case "from":
		f.FactMore.From = s.key()
	case "budget":
		f.FactMore.Budget = s.budget()
	case "spec":
		f.Spec = s.spec()
	case "begin":
		f.FactMore.Begin = s.begun()
	case "answer":
		f.Answer = s.result()
	case "join":
		f.FactMore.Join = s.join()
	case "route":
		f.Route = s.route()
	case "skills":
		f.FactMore.Skills = s.skillSet()
	case "mail":
		f.FactMore.Mail = s.mail()
	case "image":
		f.FactMore.Image = s.image()
	case "senders":
		f.FactMore.Senders = scanList(s, (*scanner).policySender)
	case "elsewhere":
		f.Elsewhere = s.bool()
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
	var id, sessionID []byte
	more := func() *SpecMore {
		if spec.SpecMore == nil {
			spec.SpecMore = s.shared.mores.next()
		}
		return spec.SpecMore
	}
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "id":
			id = s.bytes()
		case "sessionId":
			sessionID = s.bytes()
		case "key":
			spec.Key = s.key()
		case "parent":
			spec.Parent = s.key()
		case "spawnKey":
			more().SpawnKey = s.string()
		case "digest":
			more().Digest = s.string()
		case "request":
			more().Request = s.word()
		case "byModel":
			spec.ByModel = s.bool()
		case "task":
			spec.Task = s.text()
		case "label":
			more().Label = s.string()
		case "name":
			more().Name = s.string()
		case "announce":
			spec.Announce = s.bool()
		case "milestones":
			spec.Milestones = s.bool()
		case "thread":
			spec.Thread = s.bool()
		case "session":
			spec.Session = s.bool()
		case "delete":
			spec.Delete = s.bool()
		case "step":
			spec.Step = s.bool()
		case "update":
			spec.Update = s.bool()
		case "extra":
			more().Extra = s.base64()
		case "route":
			more().Route = s.route()
		case "created":
			spec.Created = s.int64()
		case "senders":
			more().Senders = scanList(s, (*scanner).policySender)
		default:
			granted = true
			s.grantPart(&g, name)
		}
	}
	spec.ID = endOf(spec.Key.String(), id)
	spec.SessionID = endOf(spec.Key.String(), sessionID)
	if granted {
		spec.Grant = s.shared.grantOf(&g)
	}
	return spec
}

// endOf returns an id as a string, which is the end of s if s ends so: one in memory for both.
func endOf(s string, id []byte) string {
	if len(id) < len(s) && s[len(s)-len(id):] == string(id) {
		return s[len(s)-len(id):]
	}
	return string(id)
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
		case "replyTo":
			a.ReplyTo = s.text()
		case "voice":
			a.Voice = s.bool()
		case "refused":
			a.Own().Refused = s.text()
		case "byModel":
			a.Own().ByModel = scanList(s, (*scanner).modelUsage)
		case "whole":
			a.Own().Whole = s.storedFile()
		case "wholeJSON":
			a.Own().WholeJSON = s.storedFile()
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
		s.usagePart(&u, name)
	}
	return u
}

// usagePart reads a member of a usage, which may stand beside others.
func (s *scanner) usagePart(u *Usage, name []byte) {
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

func (s *scanner) modelUsage() (m ModelUsage) {
	for name := s.begin(); name != nil; name = s.more() {
		if string(name) == "model" {
			m.Model = s.text()
			continue
		}
		s.usagePart(&m.Usage, name)
	}
	return m
}

func (s *scanner) join() *Join {
	j := new(Join)
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "keys":
			j.Keys = scanList(s, (*scanner).key)
		case "runs":
			j.Runs = scanList(s, (*scanner).string)
		case "need":
			j.Need = s.uint32()
		case "until":
			j.Until = s.int64()
		case "within":
			j.Within = s.int64()
		case "byModel":
			j.ByModel = s.bool()
		case "rest":
			j.Rest = Rest(s.uint8())
		case "left":
			j.Left = s.uint32()
		case "good":
			j.Good = s.uint32()
		case "senders":
			j.Senders = scanList(s, (*scanner).policySender)
		case "at":
			j.At = s.route()
		case "passed":
			j.Passed = s.bool()
		default:
			s.fail()
		}
	}
	return j
}

func (s *scanner) skillSet() *SkillSet {
	set := new(SkillSet)
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "version":
			set.Version = s.word()
		case "list":
			set.Skills = scanList(s, (*scanner).skillRef)
		default:
			s.fail()
		}
	}
	return set
}

func (s *scanner) skillRef() (k SkillRef) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "name":
			k.Name = s.word()
		case "digest":
			k.Digest = s.word()
		default:
			s.fail()
		}
	}
	return k
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

func (s *scanner) mail() *Mail {
	m := new(Mail)
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "sender":
			m.Sender = s.sender()
		case "sent":
			m.Sent = s.int64()
		case "parts":
			m.Parts = scanList(s, (*scanner).part)
		case "meta":
			m.Meta = s.texts()
		default:
			s.fail()
		}
	}
	return m
}

func (s *scanner) sender() (x session.Sender) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "id":
			x.ID = s.string()
		case "name":
			x.Name = s.string()
		default:
			s.fail()
		}
	}
	return x
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
		case "mail":
			in.Mail = s.mail()
		case "percent":
			in.Percent = s.uint8()
		case "runId":
			in.RunID = s.string()
		case "thread":
			in.Thread = s.bool()
		case "repair":
			in.Repair = s.bool()
		case "senders":
			in.Senders = scanList(s, (*scanner).policySender)
		default:
			s.fail()
		}
	}
	return in
}

func (s *scanner) policySender() (x policy.Sender) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "id":
			x.ID = s.word()
		case "channel":
			x.Channel = s.word()
		case "peer":
			x.Peer = s.word()
		case "owner":
			x.Owner = s.bool()
		default:
			s.fail()
		}
	}
	return x
}

func (s *scanner) part() (p session.Part) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "kind":
			p.Kind = session.PartKind(s.word())
		case "mediaType":
			p.MediaType = s.word()
		case "name":
			p.Name = s.string()
		case "file":
			p.File = s.storedFile()
		case "url":
			p.URL = s.string()
		default:
			s.fail()
		}
	}
	return p
}

func (s *scanner) storedFile() (f session.File) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "hash":
			f.Hash = s.string()
		case "size":
			f.Size = s.int64()
		default:
			s.fail()
		}
	}
	return f
}

// texts reads an object whose members are strings.
func (s *scanner) texts() map[string]string {
	m := make(map[string]string)
	for name := s.begin(); name != nil; name = s.more() {
		k := string(name)
		m[k] = s.string()
	}
	return m
}

func (s *scanner) asked() (a Asked) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "ids":
			a.IDs = scanList(s, (*scanner).string)
		case "meta":
			a.Meta = s.texts()
		case "route":
			a.Route = s.route()
		case "at":
			a.At = s.route()
		default:
			s.fail()
		}
	}
	return a
}

func (s *scanner) saying() (x Saying) {
	for name := s.begin(); name != nil; name = s.more() {
		switch string(name) {
		case "n":
			x.Num = s.uint32()
		case "id":
			x.ID = s.string()
		case "text":
			x.Text = s.text()
		case "empty":
			x.Empty = s.bool()
		default:
			s.fail()
		}
	}
	return x
}
