package storecopytest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/storecopy"
)

// An Open opens a Store that has nothing, and closes it at the end of the test.
type Open func(t *testing.T) *session.Store

// histories is how many random histories are copied.
const histories = 3

// TestHistories copies random histories from memory into a Store, into another one of it, and back.
// All of them are the same, and go on alike: what is written behind has the positions of memory.
func TestHistories(t *testing.T, open Open) {
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			from := session.NewMemory()
			Fill(t, from, seed, 150)
			first, second, last := open(t), open(t), session.NewMemory()
			CopyAll(t, from, first)
			CopyAll(t, first, second)
			CopyAll(t, second, last)
			for _, s := range []*session.Store{first, second, last} {
				GoOn(t, from, s)
			}
			same(t, last, first)
			same(t, last, second)
		})
	}
	// What a Store has written on its own is copied with sequences that need not be the same.
	t.Run("its own", func(t *testing.T) {
		from, to := open(t), session.NewMemory()
		Fill(t, own(from), 1, 150)
		report, err := storecopy.Copy(t.Context(), from, to, storecopy.Options{})
		must(t, err)
		if report.Lines == 0 || report.Files == 0 || report.Members == 0 || report.Archived == 0 {
			t.Fatalf("the copy has %+v", report)
		}
	})
}

// own returns a Store without its importers.
func own(s *session.Store) *session.Store {
	return &session.Store{
		Journal:     struct{ session.Journal }{s.Journal},
		Transcripts: struct{ session.Transcripts }{s.Transcripts}, Files: s.Files,
	}
}

// same ends the test unless two Stores have the same.
func same(t testing.TB, want, got *session.Store) {
	t.Helper()
	sameText(t, Contents(t, want), Contents(t, got))
}

func sameText(t testing.TB, want, got string) {
	t.Helper()
	if want != got {
		t.Fatalf("the Store has\n%s\n\nand not\n%s", got, want)
	}
}

// CopyAll copies a Store into an empty one, and ends the test unless that is what it was then.
func CopyAll(t testing.TB, from, to *session.Store) {
	t.Helper()
	want := Contents(t, from)
	report, err := storecopy.Copy(t.Context(), from, to, storecopy.Options{})
	must(t, err)
	if len(report.Unknown) > 0 || report.Renumbered > 0 {
		t.Fatalf("the copy is not whole: %+v", report)
	}
	sameText(t, want, Contents(t, to))
	must(t, session.CheckCopy(t.Context(), to.Journal))
	verified, err := storecopy.Verify(t.Context(), from, to, storecopy.Options{})
	must(t, err)
	if fmt.Sprint(report) != fmt.Sprint(verified) {
		t.Fatalf("the copy is %+v, and compared %+v", report, verified)
	}
}

// GoOn writes to every log and transcript of a copy, behind the end that it has in the original.
func GoOn(t testing.TB, from, to *session.Store) {
	t.Helper()
	for h, err := range from.Journal.Roots(t.Context(), session.RootQuery{}) {
		must(t, err)
		b := session.Batch{ID: "after", Entries: []session.Entry{{Payload: session.Raw(`"after"`)}}}
		at, err := to.Journal.Append(t.Context(), h.Root, h.Last, b)
		must(t, err)
		if at != h.Last+1 {
			t.Fatalf("what follows %d in %q is at %d", h.Last, h.Root, at)
		}
		for after := max(h.Last, 5) - 5; after <= at; after++ {
			sameSeqs(t, from, to, h.Root, after, at)
		}
	}
	for ref, err := range from.Transcripts.(session.TranscriptsLister).Refs(t.Context()) {
		must(t, err)
		var end session.Pos
		n := 0
		for l, err := range from.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
			must(t, err)
			if n++; n%4 == 0 {
				samePositions(t, from, to, ref, l.Pos+session.Pos(n/4%3)-1)
			}
			end = l.Pos
		}
		m := session.Message{Role: session.MessageUser, Text: "after"}
		at, err := to.Transcripts.Append(t.Context(), ref, end, m, m)
		must(t, err)
		if at != end+2 {
			t.Fatalf("what follows %d in %v ends at %d", end, ref, at)
		}
	}
}

// sameSeqs ends the test unless both have the same entries behind a sequence, but for that of last,
// which only the copy has.
func sameSeqs(
	t testing.TB, from, to *session.Store, root session.Key, after, last session.Seq,
) {
	t.Helper()
	var all [2][]session.Seq
	for i, s := range []*session.Store{from, to} {
		for e, err := range s.Journal.Read(t.Context(), root, after) {
			must(t, err)
			all[i] = append(all[i], e.Seq)
		}
	}
	if last > after {
		all[0] = append(all[0], last)
	}
	if fmt.Sprint(all[0]) != fmt.Sprint(all[1]) {
		t.Fatalf("behind %d of %q are %v and not %v", after, root, all[1], all[0])
	}
}

// samePositions ends the test unless both have the same lines behind a position and at the end.
func samePositions(t testing.TB, from, to *session.Store, ref session.Ref, pos session.Pos) {
	t.Helper()
	for _, q := range []session.LineQuery{{After: pos}, {Last: 2}, {After: pos, Last: 1}} {
		var all [2][]session.Pos
		for i, s := range []*session.Store{from, to} {
			for l, err := range s.Transcripts.Read(t.Context(), ref, q) {
				must(t, err)
				all[i] = append(all[i], l.Pos)
			}
		}
		if fmt.Sprint(all[0]) != fmt.Sprint(all[1]) {
			t.Fatalf("%+v of %v selects %v and not %v", q, ref, all[1], all[0])
		}
	}
}

// TestCutOff cuts copies off at every n-th write, before it and behind it. Each is told by its
// mark, is not the source of another one, and goes on to the same end. Without its first mark the
// target is empty.
func TestCutOff(t *testing.T, every int, open Open) {
	ctx := t.Context()
	from := session.NewMemory()
	Fill(t, from, 7, 60)
	want := Contents(t, from)
	for _, late := range []bool{false, true} {
		for n := 0; ; n += every {
			to := open(t)
			_, err := storecopy.Copy(ctx, from, Dying(to, n, late), storecopy.Options{})
			if err == nil {
				if n < 30 {
					t.Fatalf("the copy has %d writes", n)
				}
				break
			}
			mustBe(t, err, ErrDied)
			switch whole := Contents(t, to) == want; {
			case n == 0 && !late:
				must(t, session.CheckCopy(ctx, to.Journal))
				sameText(t, "", Contents(t, to))
			case !whole || session.CheckCopy(ctx, to.Journal) != nil:
				mustBe(t, session.CheckCopy(ctx, to.Journal), session.ErrUnfinishedCopy)
				_, err = storecopy.Copy(ctx, to, session.NewMemory(), storecopy.Options{})
				mustBe(t, err, session.ErrUnfinishedCopy)
			default: // the last mark was written
				continue
			}
			CopyAll(t, from, to)
		}
	}
}

// mustBe ends the test unless err is a target.
func mustBe(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got error %v, want one that is %q", err, target)
	}
}

// TestNotEmpty copies into Stores that have something: they are refused, and nothing is written.
func TestNotEmpty(t *testing.T, open Open) {
	ctx := t.Context()
	from := session.NewMemory()
	Fill(t, from, 3, 20)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "one"}
	line := func(s *session.Store) error {
		_, err := s.Transcripts.Append(ctx, ref, 0, session.Message{Role: session.MessageUser})
		return err
	}
	for name, put := range map[string]func(*session.Store) error{
		`the log of "agent:main:main"`: func(s *session.Store) error {
			b := session.Batch{Entries: []session.Entry{{Payload: session.Raw(`1`)}}}
			_, err := s.Journal.Append(ctx, ref.Key, 0, b)
			return err
		},
		`the transcript "one" of "agent:main:main"`: line,
		`transcript "one" of "agent:main:main"`: func(s *session.Store) error {
			err := line(s)
			if err == nil {
				_, err = s.Transcripts.Archive(ctx, ref, Begun)
			}
			return err
		},
		`"one"`: func(s *session.Store) error {
			_, err := s.Files.Put(ctx, ref, strings.NewReader("x"), session.File{})
			return err
		},
		`a copy into it ended at`: func(s *session.Store) error {
			_, err := storecopy.Copy(ctx, session.NewMemory(), s, storecopy.Options{})
			return err
		},
	} {
		to := open(t)
		must(t, put(to))
		before := Contents(t, to)
		_, err := storecopy.Copy(ctx, from, to, storecopy.Options{})
		_, full := errors.AsType[*storecopy.NotEmptyError](err)
		if !full || !strings.Contains(err.Error(), name) {
			t.Fatalf("a target with %s: %v", name, err)
		}
		sameText(t, before, Contents(t, to))
		_, err = storecopy.Verify(ctx, from, to, storecopy.Options{})
		if _, ok := errors.AsType[*storecopy.DifferenceError](err); !ok {
			t.Fatalf("a target with %s is compared: %v", name, err)
		}
	}
}
