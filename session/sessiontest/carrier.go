package sessiontest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
)

// A Crashing is a store whose process and power a test can end.
type Crashing struct {
	// Open opens the store, the same one with every call, as a process that starts again would.
	// What was opened before is closed, or Crash was called.
	Open func() (*session.Store, error)
	// Crash ends what is open, without Close. What was not durable is lost as far as it can be, and
	// nothing else.
	Crash func()
}

// TestCarrier runs every rule of [session.Carrier] in a subtest, which quotes the rule if it fails,
// and those of [session.Transcripts] with AppendWith in the place of Append. It calls fresh once
// for each rule. fresh returns a store without trees and transcripts.
func TestCarrier(t *testing.T, fresh func(t *testing.T) Crashing) {
	t.Helper()
	runRules(t, carrierRules, func(t *testing.T) func() (crashStore, error) {
		return fresh(t).opener()
	})
	t.Run("transcripts", func(t *testing.T) {
		runRules(t, transcriptRules, func(t *testing.T) TranscriptsOpenFunc {
			open := fresh(t).opener()
			return func() (session.Transcripts, error) {
				s, err := open()
				if err != nil {
					return nil, err
				}
				c, ok := s.Transcripts.(session.Carrier)
				if !ok {
					return nil, errNoCarrier
				}
				return withBatches{c, s}, nil
			}
		})
	})
}

var errNoCarrier = errors.New("sessiontest: the Transcripts of the store are not a session.Carrier")

// opener returns how a probe opens the store.
func (c Crashing) opener() func() (crashStore, error) {
	return func() (crashStore, error) {
		s, err := c.Open()
		return crashStore{s, c.Crash}, err
	}
}

// A crashStore is what a Crashing has opened.
type crashStore struct {
	*session.Store
	crash func()
}

// withBatches is a Carrier whose Append is AppendWith.
type withBatches struct {
	session.Carrier
	store crashStore
}

// Append implements session.Transcripts.
func (w withBatches) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	return w.AppendWith(ctx, rootA, ref, after, m...)
}

// Close closes the store.
func (w withBatches) Close() error { return w.store.Close() }

type carrierProbe = probe[crashStore]

// carrierRules are the rules of [session.Carrier], in the order of their numbers.
var carrierRules = []rule[crashStore]{
	{
		"own journal",
		"CarriedBy is true for the Journal of the Store, and false for another one, also with it inside.",
		checkCarriedBy,
	},
	{
		"seen",
		"Once AppendWith has returned, every Read sees the lines, and the transcript goes on behind them.",
		checkCarriedSeen,
	},
	{
		"with the batch",
		"The lines are durable once a batch of their tree is, whatever transcripts of it they are in.",
		checkCarriedWithBatch,
	},
	{
		"later lines",
		"Lines of an Append are not durable before those of an earlier AppendWith to the same transcript.",
		checkCarriedInOrder,
	},
	{
		"failed batch",
		"A batch that fails leaves the lines where they are, to the next one.",
		checkCarriedAfterFailure,
	},
	{
		"other tree",
		"Lines for a batch of another tree are not durable before those of the same transcript.",
		checkCarriedByAnother,
	},
	{
		"only last lines",
		"What a crash takes without a batch is the last lines, and the transcript goes on before them.",
		checkCarriedLost,
	},
	{"close", "Close makes the lines durable.", checkCarriedClose},
	{"archive", "A transcript that was archived has the lines.", checkCarriedArchive},
}

// carry appends messages with the batches of a tree, and returns the end.
func carry(
	p *carrierProbe, s crashStore, root session.Key, ref session.Ref, after session.Pos, id string,
) session.Pos {
	last, err := carrierOf(p, s).AppendWith(p.ctx, root, ref, after, messages(id, 2)...)
	p.must("append "+id+" with a batch", err)
	return last
}

// carrierOf returns the Transcripts of a store.
func carrierOf(p *carrierProbe, s crashStore) session.Carrier {
	c, ok := s.Transcripts.(session.Carrier)
	if !ok {
		p.must("look at the store", errNoCarrier)
	}
	return c
}

// batch appends a batch to the log of a tree.
func batch(p *carrierProbe, s crashStore, root session.Key, after session.Seq) session.Seq {
	last, err := s.Journal.Append(p.ctx, root, after, factBatch("batch", 1))
	p.must("append a batch", err)
	return last
}

// crashed ends a store without Close, and opens it again.
func crashed(p *carrierProbe, s crashStore) crashStore {
	s.crash()
	p.opened = nil
	return p.open()
}

// wantLines fails the rule unless a transcript has two lines of each id.
func wantLines(p *carrierProbe, s crashStore, ref session.Ref, ids ...string) session.Pos {
	var want []string
	for _, id := range ids {
		want = append(want, factTexts(id, 2)...)
	}
	got, last := textsOf(p, s, session.LineQuery{}, ref)
	if !slices.Equal(got, want) {
		p.fail("read %v: got %q, want %q", ref, got, want)
	}
	return last
}

// textsOf returns the texts of the lines that q selects, and the position of the last one.
func textsOf(
	p *carrierProbe, s crashStore, q session.LineQuery, ref session.Ref,
) (texts []string, last session.Pos) {
	for line, err := range s.Transcripts.Read(p.ctx, ref, q) {
		p.must("read a transcript", err)
		texts, last = append(texts, line.Message.Text), line.Pos
	}
	return texts, last
}

func checkCarriedBy(p *carrierProbe) {
	s := p.open()
	c := carrierOf(p, s)
	if !c.CarriedBy(s.Journal) {
		p.fail("CarriedBy is false for the Journal of the Store")
	}
	inside := struct{ session.Journal }{s.Journal}
	for what, j := range map[string]session.Journal{
		"a Journal with it inside": inside, "another Journal": session.NewMemory().Journal, "nil": nil,
	} {
		if c.CarriedBy(j) {
			p.fail("CarriedBy is true for %s", what)
		}
	}
}

func checkCarriedSeen(p *carrierProbe) {
	s := p.open()
	end := carry(p, s, rootA, refA, 0, "a")
	if last := wantLines(p, s, refA, "a"); last != end {
		p.fail("AppendWith returned %d, and the last line is at %d", end, last)
	}
	end = carry(p, s, rootA, refA, end, "b")
	end, err := s.Transcripts.Append(p.ctx, refA, end, messages("c", 2)...)
	p.must("append", err)
	carry(p, s, rootA, refA, end, "d")
	wantLines(p, s, refA, "a", "b", "c", "d")
}

func checkCarriedWithBatch(p *carrierProbe) {
	s := p.open()
	end := carry(p, s, rootA, refA, 0, "a")
	carry(p, s, rootA, refB, 0, "x")
	seq := batch(p, s, rootA, 0)
	s = crashed(p, s)
	end2 := wantLines(p, s, refA, "a")
	if end2 != end {
		p.fail("the transcript ends at %d after a crash, and ended at %d", end2, end)
	}
	wantLines(p, s, refB, "x")
	carry(p, s, rootA, refA, carry(p, s, rootA, refA, end, "b"), "c")
	batch(p, s, rootA, seq)
	s = crashed(p, s)
	wantLines(p, s, refA, "a", "b", "c")
}

func checkCarriedInOrder(p *carrierProbe) {
	s := p.open()
	end := carry(p, s, rootA, refA, 0, "a")
	end, err := s.Transcripts.Append(p.ctx, refA, end, messages("b", 2)...)
	p.must("append", err)
	s = crashed(p, s)
	if last := wantLines(p, s, refA, "a", "b"); last != end {
		p.fail("the transcript ends at %d after a crash, and ended at %d", last, end)
	}
}

func checkCarriedAfterFailure(p *carrierProbe) {
	s := p.open()
	carry(p, s, rootA, refA, 0, "a")
	_, err := s.Journal.Append(p.ctx, rootA, 7, factBatch("batch", 1))
	p.wantIs("append a batch after a sequence that does not exist", err, session.ErrConflict)
	done, cancel := context.WithCancel(p.ctx)
	cancel()
	_, err = s.Journal.Append(done, rootA, 0, factBatch("batch", 1))
	p.wantIs("append a batch with a ctx that is done", err, context.Canceled)
	wantLines(p, s, refA, "a")
	batch(p, s, rootA, 0)
	s = crashed(p, s)
	wantLines(p, s, refA, "a")
}

func checkCarriedByAnother(p *carrierProbe) {
	s := p.open()
	end := carry(p, s, rootA, refA, 0, "a")
	carry(p, s, rootB, refA, end, "b")
	batch(p, s, rootB, 0)
	s = crashed(p, s)
	wantLines(p, s, refA, "a", "b")
}

func checkCarriedLost(p *carrierProbe) {
	s := p.open()
	end := carry(p, s, rootA, refA, 0, "a")
	seq := batch(p, s, rootA, 0)
	for _, id := range []string{"b", "c", "d"} {
		end = carry(p, s, rootA, refA, end, id)
	}
	s = crashed(p, s)
	got, last := textsOf(p, s, session.LineQuery{}, refA)
	all := factTexts("a", 2)
	for _, id := range []string{"b", "c", "d"} {
		all = append(all, factTexts(id, 2)...)
	}
	if !slices.Equal(got, all[:min(len(got), len(all))]) {
		p.fail("read %v: got %q, want the first ones of %q", refA, got, all)
	}
	if len(got) < 2 {
		p.fail("read %v: got %q, which lacks lines that a batch has made durable", refA, got)
	}
	carry(p, s, rootA, refA, last, "e")
	batch(p, s, rootA, seq)
	s = crashed(p, s)
	again, _ := textsOf(p, s, session.LineQuery{After: last}, refA)
	if want := factTexts("e", 2); !slices.Equal(again, want) {
		p.fail("read %v after %d: got %q, want %q", refA, last, again, want)
	}
}

func checkCarriedClose(p *carrierProbe) {
	s := p.open()
	carry(p, s, rootA, refA, 0, "a")
	s = p.reopen()
	wantLines(p, s, refA, "a")
	s = crashed(p, s)
	wantLines(p, s, refA, "a")
}

func checkCarriedArchive(p *carrierProbe) {
	s := p.open()
	carry(p, s, rootA, refA, 0, "a")
	_, err := s.Transcripts.Archive(p.ctx, refA, kitNoon)
	p.must("archive", err)
	s = crashed(p, s)
	got, _ := textsOf(p, s, session.LineQuery{Archived: true}, refA)
	if len(got) != 2 {
		p.fail("read the archived %v: got %q, want two lines", refA, got)
	}
	_, err = s.Journal.Append(p.ctx, rootA, 0, factBatch("batch", 1))
	p.must("append a batch", err)
}
