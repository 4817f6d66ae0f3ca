package spawntest

import (
	"iter"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Fact is what an entry of a tree's journal records, as far as tests need it. A field that does
// not belong to the kind of the fact is zero.
type Fact struct {
	Seq  session.Seq // of the entry
	Kind string      // the word that the journal has for it, such as "run_ended"
	Run  session.Key // the session that it is about; zero where it is about the tree or a delivery

	// Of "admitted": the id of the run and its requester.
	ID     string
	Parent session.Key
	// SessionID names the transcript: of "admitted" that of the run, of "opened" that of the
	// top-level session.
	SessionID string

	// Of "stop_requested": a caller asked for it.
	Stopped bool

	// Of "turn_ended": the end that the turn committed in the transcript, zero for none.
	Pos session.Pos
	// Cut says that the owner gave the turn up. Replied says, of "said" too, that what the turn says
	// goes out to people.
	Cut, Replied bool

	// Of "run_ended". Told says that the requester is told of the end, and Out that it is told by a
	// delivery.
	Told, Out bool
}

// Facts yields what the entries of a tree's journal record, in their order. An entry that cannot be
// read gives an error, beside a Fact that has its Seq only. It does not end the sequence. An error
// that entries yields is passed on.
func Facts(entries iter.Seq2[session.Entry, error]) iter.Seq2[Fact, error] {
	return func(yield func(Fact, error) bool) {
		for e, err := range entries {
			f := Fact{Seq: e.Seq}
			if err == nil {
				f, err = factOf(e)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// Ends yields the facts of [Facts] that record the end of a run, and its errors.
func Ends(entries iter.Seq2[session.Entry, error]) iter.Seq2[Fact, error] {
	return func(yield func(Fact, error) bool) {
		for f, err := range Facts(entries) {
			if (err != nil || f.Kind == tree.RunEnded.String()) && !yield(f, err) {
				return
			}
		}
	}
}

// factOf returns what an entry records.
func factOf(e session.Entry) (Fact, error) {
	from, err := tree.FactOf(e.Payload)
	if err != nil {
		return Fact{Seq: e.Seq}, err
	}
	has := func(flag tree.Flags) bool { return from.Flags&flag != 0 }
	f := Fact{Seq: e.Seq, Kind: from.Kind.String(), Run: from.Run}
	switch from.Kind {
	case tree.Opened:
		f.SessionID = from.ID
	case tree.Admitted:
		f.ID, f.SessionID, f.Parent = from.Spec.ID, from.Spec.SessionID, from.Spec.Parent
	case tree.StopRequested:
		f.Stopped = from.Cause == tree.Stopped
	case tree.TurnEnded:
		f.Pos = session.Pos(from.Num)
		f.Cut, f.Replied = has(tree.FlagCut), has(tree.FlagReply)
	case tree.Said:
		f.Replied = has(tree.FlagReply)
	case tree.RunEnded:
		f.Told, f.Out = has(tree.FlagTell), has(tree.FlagOut)
	default: // the kind and the session say it all
	}
	return f, nil
}
