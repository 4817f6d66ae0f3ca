package sessiontest

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A lazyStore is a Store in memory that knows what is durable: the operations that are, in their
// order. A crash plays them again on an empty Store. brk is the rule that it breaks, or "".
type lazyStore struct {
	brk string

	mu      sync.Mutex
	live    *session.Store
	closed  bool
	durable []func(*session.Store)
	carried []carriedLine
}

type carriedLine struct {
	root session.Key
	ref  session.Ref
	do   func(*session.Store)
}

func newLazyStore(brk string) *lazyStore { return &lazyStore{brk: brk, live: session.NewMemory()} }

func (s *lazyStore) crashing() Crashing {
	return Crashing{Open: s.open, Crash: s.crash}
}

func (s *lazyStore) open() (*session.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = false
	return &session.Store{
		Journal:     lazyJournal{s.live.Journal, s},
		Transcripts: lazyTranscripts{s.live.Transcripts, s},
	}, nil
}

func (s *lazyStore) crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.brk == "only last lines" && len(s.carried) == 3 {
		s.durable = append(s.durable, s.carried[2].do)
	}
	s.live, s.carried = session.NewMemory(), nil
	for _, do := range s.durable {
		do(s.live)
	}
}

// settle makes the carried lines durable that sel selects.
func (s *lazyStore) settle(sel func(carriedLine) bool) {
	s.carried = slices.DeleteFunc(s.carried, func(c carriedLine) bool {
		if sel(c) {
			s.durable = append(s.durable, c.do)
			return true
		}
		return false
	})
}

// change calls do, and makes it durable if it is done.
func (s *lazyStore) change(do func(*session.Store) error, before func(carriedLine) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return session.ErrClosed
	}
	err := do(s.live)
	if err == nil {
		s.settle(before)
		s.durable = append(s.durable, func(to *session.Store) { _ = do(to) })
	}
	return err
}

type lazyJournal struct {
	session.Journal
	s *lazyStore
}

func (j lazyJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (last session.Seq, err error) {
	err = j.s.change(func(s *session.Store) (err error) {
		last, err = s.Journal.Append(ctx, root, after, b)
		return err
	}, func(c carriedLine) bool {
		return c.root == root && (j.s.brk != "with the batch" || c.ref != refB)
	})
	if err != nil && j.s.brk == "failed batch" {
		j.s.mu.Lock()
		defer j.s.mu.Unlock()
		j.s.carried = nil
	}
	return last, err
}

type lazyTranscripts struct {
	session.Transcripts
	s *lazyStore
}

func (t lazyTranscripts) CarriedBy(j session.Journal) bool {
	if in, ok := j.(struct{ session.Journal }); ok && t.s.brk == "own journal" {
		j = in.Journal
	}
	own, ok := j.(lazyJournal)
	return ok && own.s == t.s
}

func (t lazyTranscripts) ofRef(ref session.Ref) func(carriedLine) bool {
	return func(c carriedLine) bool { return c.ref == ref }
}

func (t lazyTranscripts) AppendWith(
	ctx context.Context, root session.Key, ref session.Ref, after session.Pos,
	m ...session.Message,
) (last session.Pos, err error) {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, session.ErrClosed
	}
	do := func(s *session.Store) (err error) {
		last, err = s.Transcripts.Append(ctx, ref, after, m...)
		return err
	}
	if err = do(s.live); err != nil {
		return last, err
	}
	other := func(c carriedLine) bool { return c.ref == ref && c.root != root }
	if s.brk != "other tree" {
		s.settle(other)
	}
	s.carried = append(s.carried, carriedLine{root, ref, func(to *session.Store) {
		_, err := to.Transcripts.Append(context.Background(), ref, after, m...)
		if err != nil { // lines before are lost, so these have another place
			var end session.Pos
			all := to.Transcripts.Read(context.Background(), ref, session.LineQuery{})
			for line, err := range all {
				if err == nil {
					end = line.Pos
				}
			}
			_, _ = to.Transcripts.Append(context.Background(), ref, end, m...)
		}
	}})
	return last, nil
}

func (t lazyTranscripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	return changeSeq(t.Transcripts.Read(ctx, ref, q), func(all []session.Line) []session.Line {
		return slices.DeleteFunc(all, func(l session.Line) bool {
			return t.s.brk == "seen" && l.Message.Text == "d/0"
		})
	})
}

func (t lazyTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (last session.Pos, err error) {
	before := t.ofRef(ref)
	if t.s.brk == "later lines" {
		before = func(carriedLine) bool { return false }
	}
	err = t.s.change(func(s *session.Store) (err error) {
		last, err = s.Transcripts.Append(ctx, ref, after, m...)
		return err
	}, before)
	return last, err
}

func (t lazyTranscripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (name string, err error) {
	before := t.ofRef(ref)
	if t.s.brk == "archive" {
		before = func(carriedLine) bool { return false }
	}
	err = t.s.change(func(s *session.Store) (err error) {
		name, err = s.Transcripts.Archive(ctx, ref, at)
		return err
	}, before)
	return name, err
}

func (t lazyTranscripts) Restore(ctx context.Context, ref session.Ref) error {
	return t.s.change(func(s *session.Store) error {
		return s.Transcripts.Restore(ctx, ref)
	}, t.ofRef(ref))
}

func (t lazyTranscripts) Remove(ctx context.Context, ref session.Ref) error {
	return t.s.change(func(s *session.Store) error {
		return s.Transcripts.Remove(ctx, ref)
	}, t.ofRef(ref))
}

// Close makes what is carried durable.
func (t lazyTranscripts) Close() error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.s.brk != "close" {
		t.s.settle(func(carriedLine) bool { return true })
	}
	t.s.closed = true
	return nil
}

// The rules pass a Carrier that keeps them.
func TestLazyCarrier(t *testing.T) {
	for _, r := range carrierRules {
		open := newLazyStore("").crashing().opener()
		if err := r.try(t.Context(), open, hangAfter); err != nil {
			t.Errorf("rule %q: %v", r.name, err)
		}
	}
}

// Each rule of a Carrier finds the one that breaks it, and no other rule does.
func TestBrokenCarriers(t *testing.T) {
	for _, broken := range carrierRules {
		t.Run(broken.name, func(t *testing.T) {
			for _, r := range carrierRules {
				open := newLazyStore(broken.name).crashing().opener()
				err := r.try(t.Context(), open, hangAfter)
				if (err != nil) != (r.name == broken.name) {
					t.Errorf("rule %q says %v of a store that breaks %q", r.name, err, broken.name)
				}
			}
		})
	}
}
