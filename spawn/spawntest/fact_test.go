package spawntest_test

import (
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// asWritten yields entries as a journal on disk has them.
func asWritten(
	t *testing.T, entries iter.Seq2[session.Entry, error],
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		for e, err := range entries {
			require.NoError(t, err)
			text, err := e.Payload.AppendJSON(nil)
			require.NoError(t, err)
			e.Payload = session.Raw(text)
			if !yield(e, nil) {
				return
			}
		}
	}
}

// A Fact says what the fact of the tree says, by the flags and causes that the tree has.
func TestFacts(t *testing.T) {
	child := session.Must(topKey.Child("main", "6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"))
	run := &tree.Spec{ID: "id", SessionID: "s", Key: child, Parent: topKey, Grant: &tree.Grant{}}
	for _, test := range []struct {
		fact tree.Fact
		want spawntest.Fact
	}{
		{
			tree.Fact{Kind: tree.Opened, Num: 1, FactMore: &tree.FactMore{ID: "r"}},
			spawntest.Fact{Kind: "opened", SessionID: "r"},
		},
		{
			tree.Fact{Kind: tree.Admitted, Run: child, Spec: run},
			spawntest.Fact{Kind: "admitted", Run: child, ID: "id", SessionID: "s", Parent: topKey},
		},
		{
			tree.Fact{Kind: tree.StopRequested, Run: child, Cause: tree.Stopped},
			spawntest.Fact{Kind: "stop_requested", Run: child, Stopped: true},
		},
		{
			tree.Fact{Kind: tree.StopRequested, Run: child, Cause: tree.Timeout},
			spawntest.Fact{Kind: "stop_requested", Run: child},
		},
		{
			tree.Fact{Kind: tree.TurnEnded, Run: topKey, N: 1, State: tree.OK, Num: 7},
			spawntest.Fact{Kind: "turn_ended", Run: topKey, Pos: 7},
		},
		{
			tree.Fact{Kind: tree.TurnEnded, Run: topKey, Flags: tree.FlagSilent | tree.FlagSkip},
			spawntest.Fact{Kind: "turn_ended", Run: topKey},
		},
		{
			tree.Fact{Kind: tree.TurnEnded, Run: topKey, Flags: tree.FlagCut},
			spawntest.Fact{Kind: "turn_ended", Run: topKey, Cut: true},
		},
		{
			tree.Fact{Kind: tree.TurnEnded, Run: topKey, Flags: tree.FlagCrashed},
			spawntest.Fact{Kind: "turn_ended", Run: topKey},
		},
		{
			tree.Fact{
				Kind: tree.TurnEnded, Run: topKey, Flags: tree.FlagReply, Answer: &tree.Result{},
			},
			spawntest.Fact{Kind: "turn_ended", Run: topKey, Replied: true},
		},
		{
			tree.Fact{Kind: tree.RunEnded, Run: child, State: tree.OK, Num: 9},
			spawntest.Fact{Kind: "run_ended", Run: child},
		},
		{
			tree.Fact{Kind: tree.RunEnded, Run: child, State: tree.OK, Flags: tree.FlagTell},
			spawntest.Fact{Kind: "run_ended", Run: child, Told: true},
		},
		{
			tree.Fact{Kind: tree.RunEnded, Run: child, Flags: tree.FlagTell | tree.FlagOut},
			spawntest.Fact{Kind: "run_ended", Run: child, Told: true, Out: true},
		},
		{tree.Fact{Kind: tree.Deferred, Ord: 1}, spawntest.Fact{Kind: "deferred"}},
		{
			tree.Fact{Kind: tree.TurnCancelled, Run: topKey, N: 1},
			spawntest.Fact{Kind: "halted", Run: topKey},
		},
	} {
		test.want.Seq = 1
		for _, entries := range []iter.Seq2[session.Entry, error]{
			entriesOf([]tree.Fact{test.fact}), asWritten(t, entriesOf([]tree.Fact{test.fact})),
		} {
			n := 0
			for f, err := range spawntest.Facts(entries) {
				require.NoError(t, err)
				require.Equal(t, test.want, f)
				n++
			}
			require.Equal(t, 1, n)
			for f, err := range spawntest.Ends(entries) {
				require.NoError(t, err)
				require.Equal(t, test.want, f)
				n++
			}
			require.Equal(t, test.want.Kind == "run_ended", n == 2)
		}
	}
}

// What cannot be read is an error with the place of the entry, and what follows it is yielded.
func TestFactsOfWhatCannotBeRead(t *testing.T) {
	broken := errors.New("the disk is broken")
	entries := func(yield func(session.Entry, error) bool) {
		_ = yield(session.Entry{Seq: 1, Payload: session.Raw(`{"v":9,"kind":"opened"}`)}, nil) &&
			yield(session.Entry{Seq: 2, Payload: session.Raw(`{"v":1,"kind":"run_ended"}`)}, nil) &&
			yield(session.Entry{Seq: 3}, broken)
	}
	for _, read := range []func(iter.Seq2[session.Entry, error]) iter.Seq2[spawntest.Fact, error]{
		spawntest.Facts, spawntest.Ends,
	} {
		var seqs []session.Seq
		var errs []error
		for f, err := range read(entries) {
			seqs, errs = append(seqs, f.Seq), append(errs, err)
		}
		require.Equal(t, []session.Seq{1, 2, 3}, seqs)
		require.Error(t, errs[0])
		require.NoError(t, errs[1])
		require.ErrorIs(t, errs[2], broken)
		for _, err := range read(entries) {
			require.Error(t, err)
			break
		}
	}
}
