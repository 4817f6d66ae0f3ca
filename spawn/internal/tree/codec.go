package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// Version is the newest version of the codec. Decoding refuses a fact of a later version or of an
// unknown kind: guessing what a fact means could lose results.
//
// A fact is written as version 1 unless it has a member that version 1 lacks, see [Fact.version].
// So an earlier library opens what it understands, and refuses the rest with a *[VersionError].
const Version = 2

// A VersionError is a fact that this version of the library does not understand.
type VersionError struct {
	Version int
	Kind    string
}

func (e *VersionError) Error() string {
	const format = "spawn: journal holds a fact of version %d, kind %q; " +
		"this library knows versions 1 to %d"
	return fmt.Sprintf(format, e.Version, e.Kind, Version)
}

// wireFact is a Fact as JSON. [Fact.AppendJSON] writes the same by hand, in the order of its
// fields.
type wireFact struct {
	V      int            `json:"v"`
	Kind   string         `json:"kind"`
	At     int64          `json:"at"`
	Run    session.Key    `json:"run,omitzero"`
	State  State          `json:"state,omitempty"`
	Cause  Cause          `json:"cause,omitempty"`
	Class  Class          `json:"class,omitempty"`
	Flags  Flags          `json:"flags,omitempty"`
	N      uint32         `json:"n,omitempty"`
	Ord    uint32         `json:"ord,omitempty"`
	Until  int64          `json:"until,omitempty"`
	Num    uint64         `json:"num,omitempty"`
	ID     string         `json:"id,omitempty"`
	Text   Text           `json:"text,omitempty"`
	From   session.Key    `json:"from,omitzero"`
	Budget *Budget        `json:"budget,omitempty"`
	Spec   *Spec          `json:"spec,omitempty"`
	Begin  *Begin         `json:"begin,omitempty"`
	Answer *Result        `json:"answer,omitempty"`
	Join   *Join          `json:"join,omitempty"`
	Route  *session.Route `json:"route,omitempty"`
	Skills *SkillSet      `json:"skills,omitempty"`
	Mail   *Mail          `json:"mail,omitempty"`
	Image  *Image         `json:"image,omitempty"`

	Senders []policy.Sender `json:"senders,omitempty"`

	Elsewhere bool `json:"elsewhere,omitempty"`
}

// DecodeFact reads what AppendJSON wrote. It returns a *VersionError or a *CorruptError for a fact
// that is JSON but not one of this library.
func DecodeFact(data []byte) (*Fact, error) {
	var w wireFact
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, notAFact(err)
	}
	if w.V < 1 || w.V > Version || kindOf(w.Kind) == 0 || w.V > 1 && hasUnknownMember(data) {
		return nil, &VersionError{w.V, w.Kind}
	}
	f := w.fact()
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, nil
}

// notAFact returns why an entry is not a fact, without the names of our types.
func notAFact(err error) error {
	const what = "spawn: journal holds what is not a fact"
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return fmt.Errorf("%s: %w", what, err)
	case wrong.Field == "":
		return fmt.Errorf("%s: it is of the JSON type %s", what, wrong.Value)
	}
	return fmt.Errorf("%s: the member %s cannot be of the JSON type %s", what,
		text.Quote(wrong.Field), wrong.Value)
}

// hasUnknownMember reports whether a fact has a member that this library does not know, which a
// later library has written. All members of version 1 are known.
func hasUnknownMember(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(new(wireFact)) != nil
}

// fact returns what w says.
func (w *wireFact) fact() *Fact {
	f := &Fact{
		Kind: kindOf(w.Kind), State: w.State, Cause: w.Cause, Class: w.Class, Flags: w.Flags,
		N: w.N, Ord: w.Ord, At: w.At, Until: w.Until, Num: w.Num,
		Run: w.Run, Text: w.Text, Spec: w.Spec, Answer: w.Answer, Route: w.Route,
		Elsewhere: w.Elsewhere,
	}
	more := FactMore{
		ID: w.ID, From: w.From, Begin: w.Begin, Join: w.Join, Skills: w.Skills, Mail: w.Mail,
		Image: w.Image, Senders: w.Senders,
	}
	if w.Budget != nil {
		more.Budget = *w.Budget
	}
	if !more.isZero() {
		f.FactMore = &more
	}
	return f
}

// version returns the version that f is written as: 1, or 2 if f has a kind, a flag or a member
// that version 1 lacks, its image included. A fact that means what it meant in version 1 is the
// same bytes as there.
//
// TestVersionOfMembers fails for a member that is missing here.
func (f *Fact) version() int {
	switch {
	case f.Kind > Snapshot || f.Class > Milestone, f.Flags > flagsOfVersion1,
		f.Cause > LimitReached,
		f.Kind == Blocked && f.N > 0, f.Kind == Deferred && f.N > 1,
		f.Kind == RunEnded && (f.Answer != nil || f.N > 0),
		f.Kind == TurnStarted && f.Route != nil,
		f.Skills() != nil, f.Mail() != nil, f.Begin() != nil, len(f.Senders()) > 0,
		f.Elsewhere,
		f.Spec.beyondVersion1(), f.Answer.beyondVersion1(), f.Join().beyondVersion1(),
		f.Image().beyondVersion1():
		return 2
	}
	return 1
}

// The following functions report whether a value has a member that version 1 lacks. They take nil
// for a value that has none.

func (j *Join) beyondVersion1() bool {
	return j != nil && (j.Within != 0 || j.ByModel || len(j.Runs) > 0 || j.Rest != RestKeep ||
		len(j.Senders) > 0 || j.At != nil || j.Passed)
}

func (a *Result) beyondVersion1() bool {
	return a != nil && (a.ReplyTo != "" || a.Voice || a.Refused() != "" || len(a.ByModel()) > 0 ||
		!a.Whole().IsZero() || !a.WholeJSON().IsZero())
}

func (s *Spec) beyondVersion1() bool {
	return s != nil && (s.Digest() != "" || s.Request() != "" || s.ByModel || s.Milestones ||
		s.Thread || s.Session || s.Delete || s.Step || s.Update || s.Name() != "" ||
		len(s.Senders()) > 0)
}

func (m *Image) beyondVersion1() bool {
	if m == nil {
		return false
	}
	newKey := func(s Spawned) bool {
		return s.Digest != "" || s.ByModel || s.Spec != nil || s.End != nil
	}
	newPost := func(p SeenPost) bool { return p.RunID != "" || p.At != nil || p.How != 0 }
	newer := func(e Entry) bool {
		return e.Late || e.Unsent || e.Hook || e.Event || e.Update || e.Cause != "" ||
			e.ReplyTo != "" || e.Voice ||
			e.Interim || e.Turn > 0 || len(e.InReplyTo) > 0 || len(e.Meta) > 0 || e.RunID != "" ||
			e.Wait > 0 || len(e.Senders) > 0 || e.Sends
	}
	return len(m.Requests) > 0 || len(m.Clocks) > 0 || len(m.Marks) > 0 || m.FirstSession != "" ||
		slices.ContainsFunc(m.Outbox, newer) ||
		slices.ContainsFunc(m.Spawned, newKey) ||
		slices.ContainsFunc(m.Posts, newPost) ||
		slices.ContainsFunc(m.Runs, RunState.beyondVersion1)
}

func (s RunState) beyondVersion1() bool {
	return s.ArchiveFrom != 0 || s.Request != "" || len(s.Crashes) > 0 || s.Waits != 0 ||
		s.Aside != 0 || s.Skills != nil || len(s.Asked) > 0 || len(s.Said) > 0 ||
		s.Home != nil || s.WasAsked != nil ||
		len(s.Former) > 0 || len(s.Deposits) > 0 ||
		s.Begin != nil || len(s.Past) > 0 || len(s.Bound) > 0 ||
		s.Archiving != 0 || s.Announce || s.Discard || s.Kept != "" ||
		s.Repairs != 0 || s.Missed != 0 || s.Unnamed || s.Announced != nil ||
		s.Cause > LimitReached ||
		s.Ledger != nil || s.Active != 0 || len(s.Senders) > 0 ||
		s.Milestones != 0 || slices.ContainsFunc(s.Inbox, Input.beyondVersion1) ||
		s.Spec.beyondVersion1() || s.Answer.beyondVersion1() || s.Join.beyondVersion1() ||
		s.Open.beyondVersion1()
}

func (in Input) beyondVersion1() bool {
	return in.Mail != nil || in.Class >= Milestone || in.Percent != 0 ||
		in.RunID != "" || in.Thread || in.Repair || len(in.Senders) > 0
}

func (o *OpenTurn) beyondVersion1() bool {
	return o != nil &&
		(o.Shutdown || o.Compact || o.Step || o.Until != 0 || len(o.Shares) > 0 ||
			o.Wait != nil || o.Empty)
}

// check refuses a fact that lacks what its kind must have, or has a number out of range.
func (f *Fact) check() error {
	switch {
	case f.Kind == Admitted && (f.Spec == nil || f.Spec.Grant == nil),
		f.Kind == Snapshot && f.Image() == nil,
		f.Kind == SkillsTaken && f.Skills() == nil, f.Kind == Said && f.Answer == nil,
		f.Kind == Restarted && f.Begin() == nil,
		(f.Kind == Bound || f.Kind == Unbound) && f.Route == nil,
		f.Kind == ReviveBegun && (f.Image() == nil || len(f.Image().Runs) != 1),
		f.Kind == Unarchived && f.Image() != nil && len(f.Image().Runs) != 1,
		f.Flags&FlagReply != 0 && f.Answer == nil,
		f.State >= states, f.Cause >= causes, f.Class >= classes:
		return &CorruptError{f.Kind, f.Run, "it lacks what its kind must have"}
	}
	return nil
}

// kindOf returns the kind with a name, or 0.
func kindOf(name string) Kind {
	for k := Opened; k < kinds; k++ {
		if kindNames[k] == name {
			return k
		}
	}
	return 0
}

// FactOf returns the fact in a journal entry: the payload itself if the journal kept it in memory,
// else the decoded one.
func FactOf(p session.Payload) (*Fact, error) {
	switch p := p.(type) {
	case *Fact:
		return p, nil
	case session.Raw:
		return DecodeFact(p)
	}
	return nil, errors.New("spawn: journal holds an entry of another program")
}
