package spawntest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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

	// Of "admitted": the id of the run, its requester and its task.
	ID     string
	Parent session.Key
	Task   string
	// SessionID names the transcript: of "admitted" that of the run, of "opened" that of the
	// top-level session if it has none yet, of "reset" that from then on, and of "put_away" one
	// from before a reset.
	SessionID string
	// Former is the session id before a "reset".
	Former string

	// Of "stop_requested": a caller asked for it.
	Stopped bool

	// Of "turn_ended": the end that the turn committed in the transcript, zero for none.
	Pos session.Pos
	// Cut says that the owner gave the turn up: it did not return in time, or its inputs have ended
	// three processes. Replied says, of "said" too, that what the turn says goes out to people.
	Cut, Replied bool
	// Files are in the transcript of the session. They have what is long of the result of the
	// turn, and of "posted" the parts of the message.
	Files []session.File

	// Of "run_ended". Told says that the requester is told of the end, and Out that it is told by a
	// delivery.
	Told, Out bool
	// Updated says that people are told of the end.
	Updated bool
	// Conversations says in how many it speaks to people, each of which waits for an answer. Zero:
	// in one, if Replied says that it speaks.
	Conversations int
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

// FilesOf returns the files that a line of a transcript names.
func FilesOf(m session.Message) []session.File {
	all := named(m.Whole)
	for _, p := range m.Parts {
		all = append(all, named(p.File)...)
	}
	return all
}

// named returns the files that are not zero.
func named(files ...session.File) (all []session.File) {
	for _, f := range files {
		if !f.IsZero() {
			all = append(all, f)
		}
	}
	return all
}

// AuditFiles returns an error that is [session.ErrCorrupt] unless the files of a transcript are
// what lines and facts say: each of want is there, and whatever is there is whole. There may be
// more, of a line that was never committed. Another error is one of files.
func AuditFiles(
	ctx context.Context, files session.Files, ref session.Ref, want ...session.File,
) error {
	missing := make(map[session.File]bool)
	for _, f := range want {
		missing[f] = true
	}
	if files == nil && len(want) > 0 {
		return fileFault(ref, want[0], session.ErrNoFiles)
	}
	if files == nil {
		return nil
	}
	for f, err := range files.List(ctx, ref) {
		if err != nil {
			return err
		}
		data, err := session.ReadFile(ctx, files, ref, f)
		if err == nil && fmt.Sprintf("%x", sha256.Sum256(data)) != f.Hash {
			err = errOtherBytes
		}
		if err != nil {
			return fileFault(ref, f, err)
		}
		delete(missing, f)
	}
	for f := range missing {
		return fileFault(ref, f, session.ErrNotFound)
	}
	return nil
}

var errOtherBytes = errors.New("spawntest: the bytes do not have that hash")

func fileFault(ref session.Ref, f session.File, err error) error {
	return fmt.Errorf("spawntest: %w: file %s of %d bytes of %q, session %s: %w",
		session.ErrCorrupt, f.Hash, f.Size, ref.Key, ref.SessionID, err)
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
	case tree.Opened, tree.PutAway:
		f.SessionID = from.ID()
	case tree.Reset:
		f.SessionID, f.Former = from.ID(), string(from.Text)
	case tree.Admitted:
		f.ID, f.SessionID, f.Parent = from.Spec.ID, from.Spec.SessionID, from.Spec.Parent
		f.Task = string(from.Spec.Task)
	case tree.Posted, tree.Restarted:
		if from.Begin() != nil {
			f.ID = from.Begin().ID
		}
		f.Out = from.Kind == tree.Posted && has(tree.FlagOut)
		if m := from.Mail(); m != nil {
			f.Files = FilesOf(session.Message{Parts: m.Parts})
		}
	case tree.StopRequested:
		f.Stopped = from.Cause == tree.Stopped
	case tree.TurnEnded:
		f.Pos = session.Pos(from.Num)
		f.Cut = has(tree.FlagCut) || has(tree.FlagGivenUp)
		f.Replied = has(tree.FlagReply)
		if a := from.Answer; a != nil {
			f.Files = named(a.Whole(), a.WholeJSON())
		}
	case tree.Said:
		f.Replied = has(tree.FlagReply)
	case tree.RunEnded:
		f.Told, f.Out, f.Updated = has(tree.FlagTell), has(tree.FlagOut), from.N > 0
		f.Replied, f.Conversations = has(tree.FlagReply), int(from.Ord)
	default: // the kind and the session say it all
	}
	return f, nil
}
