package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A brokenJournal is what one call of an OpenFunc returns: a journal in memory with some methods
// replaced.
type brokenJournal struct {
	inner  session.Journal
	nth    int // how many handles were opened before this one
	append appendFunc
	read   readFunc
	roots  rootsFunc
}

func (h *brokenJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if h.append != nil {
		return h.append(ctx, root, after, b)
	}
	return h.inner.Append(ctx, root, after, b)
}

func (h *brokenJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if h.read != nil {
		return h.read(ctx, root, after)
	}
	return h.inner.Read(ctx, root, after)
}

func (h *brokenJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	if h.roots != nil {
		return h.roots(ctx, q)
	}
	return h.inner.Roots(ctx, q)
}

// end returns where a log ends.
func (h *brokenJournal) end(root session.Key) (last session.Seq) {
	for e, err := range h.inner.Read(context.Background(), root, 0) {
		if err != nil {
			return 0
		}
		last = e.Seq
	}
	return last
}

// change replaces what Read yields after it was read: f gets all of it.
func (h *brokenJournal) change(
	f func(root session.Key, after session.Seq, entries []session.Entry) []session.Entry,
) {
	h.read = func(
		ctx context.Context, root session.Key, after session.Seq,
	) iter.Seq2[session.Entry, error] {
		return changeSeq(h.inner.Read(ctx, root, after), func(all entryList) entryList {
			return f(root, after, all)
		})
	}
}

// heads is change for Roots.
func (h *brokenJournal) heads(f func(q session.RootQuery, heads []session.Head) []session.Head) {
	h.roots = func(ctx context.Context, q session.RootQuery) iter.Seq2[session.Head, error] {
		return changeSeq(h.inner.Roots(ctx, q), func(all []session.Head) []session.Head {
			return f(q, all)
		})
	}
}

// brokenJournals break one rule each: they spoil a handle on a journal that is right.
var brokenJournals = map[string]func(h *brokenJournal){
	"empty":                func(h *brokenJournal) { h.read = failsOnUnknown(h) },
	"order":                func(h *brokenJournal) { h.change(swapsFirst) },
	"after":                func(h *brokenJournal) { h.change(skipsRestOfBatch(h)) },
	"last":                 returnsTickets,
	"stale":                func(h *brokenJournal) { h.append = takesInsideBatch(h) },
	"ahead":                func(h *brokenJournal) { h.append = takesAhead(h) },
	"one winner":           func(h *brokenJournal) { h.append = checksThenActs(h) },
	"whole batches":        func(h *brokenJournal) { h.append = addsOneByOne(h) },
	"all or nothing":       func(h *brokenJournal) { h.append = addsUpToFailure(h) },
	"batch id":             losesIDOfReset,
	"payload":              func(h *brokenJournal) { h.append = encodesFloats(h) },
	"visible":              showsOldToTheSecond,
	"durable":              func(h *brokenJournal) { h.append = forgetsEnd(h) },
	"lost acknowledgement": func(h *brokenJournal) { h.change(forgetsIDs(h)) },
	"reset":                skipsSnapshotForLate,
	"reset durable":        func(h *brokenJournal) { forgetsResets(h, false) },
	"reset conflict":       func(h *brokenJournal) { forgetsResets(h, true) },
	"apart":                func(h *brokenJournal) { h.read = foldsCase(h) },
	"at once":              func(h *brokenJournal) { h.append = refusesOthers(h) },
	"roots":                func(h *brokenJournal) { h.heads(hidesReserved) },
	"due":                  func(h *brokenJournal) { h.heads(yieldsFive) },
	"due moves":            neverDueAgain,
	"due again":            mendsHalf,
	"due durable":          func(h *brokenJournal) { h.heads(forgetsDue(h)) },
	"never due":            func(h *brokenJournal) { h.roots = yieldsAll(h) },
	"member":               func(h *brokenJournal) { h.append = namesFirst(h) },
	"member reset":         func(h *brokenJournal) { h.append = dropsMembersOfResets(h) },
	"member durable":       func(h *brokenJournal) { h.roots = forgetsMembers(h) },
	"other members":        func(h *brokenJournal) { h.roots = looksThroughAll(h) },
	"large batch":          func(h *brokenJournal) { h.append = takesNoPacket(h) },
	"large snapshot":       func(h *brokenJournal) { h.append = splitsSnapshot(h) },
	"too large":            func(h *brokenJournal) { h.append = addsUpToLimit(h) },
	"early stop":           func(h *brokenJournal) { h.read = goesOn(h) },
	"invalid":              func(h *brokenJournal) { h.append = takesEmpty(h) },
	"unencodable":          func(h *brokenJournal) { h.append = returnsRawError(h) },
	"context":              ignoresContext,
	"closed":               nil, // see below
}

// closableJournal has a Close that does nothing.
type closableJournal struct{ *brokenJournal }

func (closableJournal) Close() error { return nil }

func TestBrokenJournals(t *testing.T) {
	batchBytes = 1 << 20
	fresh := func() handleMaker[*brokenJournal] {
		inner := session.NewMemory().Journal
		return func(nth int) *brokenJournal { return &brokenJournal{inner: inner, nth: nth} }
	}
	breakEach(
		t,
		journalRules,
		brokenJournals,
		fresh,
		func(rule string, h *brokenJournal) session.Journal {
			if rule == "closed" {
				return closableJournal{h}
			}
			return h
		},
	)
}

type (
	appendFunc = func(context.Context, session.Key, session.Seq, session.Batch) (session.Seq, error)
	readFunc   = func(context.Context, session.Key, session.Seq) iter.Seq2[session.Entry, error]
	rootsFunc  = func(context.Context, session.RootQuery) iter.Seq2[session.Head, error]
	entryList  = []session.Entry
)

func failsOnUnknown(h *brokenJournal) readFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq,
	) iter.Seq2[session.Entry, error] {
		if after > 0 && h.end(root) == 0 {
			return func(yield func(session.Entry, error) bool) {
				yield(session.Entry{}, session.ErrNotFound)
			}
		}
		return h.inner.Read(ctx, root, after)
	}
}

func swapsFirst(_ session.Key, _ session.Seq, all entryList) entryList {
	if len(all) >= 20 && len(all) < 100 {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

func skipsRestOfBatch(h *brokenJournal) func(session.Key, session.Seq, entryList) entryList {
	return func(root session.Key, after session.Seq, all entryList) entryList {
		whole, _ := readEntries(context.Background(), h.inner, root, 0)
		at := slices.IndexFunc(whole, func(e session.Entry) bool { return e.Seq == after })
		return slices.DeleteFunc(
			all, func(e session.Entry) bool { return at >= 0 && e.Batch == whole[at].Batch },
		)
	}
}

// returnsTickets answers every append but the first of a log with a number that it takes for the
// right one.
func returnsTickets(h *brokenJournal) {
	const ticket = 1_000_000
	h.append = func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		seq, err := h.inner.Append(ctx, root, after%ticket, b)
		if err == nil && after > 0 && !b.Reset {
			seq += ticket
		}
		return seq, err
	}
	h.read = func(
		ctx context.Context, root session.Key, after session.Seq,
	) iter.Seq2[session.Entry, error] {
		return h.inner.Read(ctx, root, after%ticket)
	}
}

func takesInsideBatch(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		all, _ := readEntries(context.Background(), h.inner, root, 0)
		for i := range len(all) - 1 {
			if all[i].Seq == after && all[i].Batch == all[i+1].Batch {
				after = h.end(root)
			}
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

func takesAhead(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if end := h.end(root); end > 0 && after == end+1 {
			after = end
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

func checksThenActs(h *brokenJournal) appendFunc {
	var mu sync.Mutex
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if h.end(root) != after {
			return h.inner.Append(ctx, root, after, b)
		}
		yieldToOthers()
		mu.Lock()
		defer mu.Unlock()
		if root.IsZero() {
			return h.inner.Append(ctx, root, after, b)
		}
		return h.inner.Append(ctx, root, h.end(root), b)
	}
}

func addsOneByOne(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if err := b.Validate(); err != nil {
			return 0, err
		}
		for _, e := range b.Entries {
			if _, bad := e.Payload.(badFact); bad {
				return h.inner.Append(ctx, root, after, b)
			}
		}
		for i := range b.Entries {
			one := b
			one.Entries, one.Reset = b.Entries[i:i+1], b.Reset && i == 0
			next, err := h.inner.Append(ctx, root, after, one)
			if err != nil {
				return 0, err
			}
			after = next
			if len(b.Entries) == 5 {
				yieldToOthers()
			}
		}
		return after, nil
	}
}

func addsUpToFailure(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		for i, e := range b.Entries {
			if _, bad := e.Payload.(badFact); bad {
				b.Entries = b.Entries[:i]
				_, _ = h.inner.Append(ctx, root, after, b)
				return 0, fmt.Errorf("%w: %w", session.ErrInvalidBatch, errBadFact)
			}
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

// returnsRawError returns the error of a payload as it is.
func returnsRawError(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		for _, e := range b.Entries {
			if bad, ok := e.Payload.(badFact); ok {
				_, err := bad.AppendJSON(nil)
				return 0, err
			}
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

func losesIDOfReset(h *brokenJournal) {
	h.append = func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if b.Reset {
			b.ID = ""
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

func encodesFloats(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if err := b.Validate(); err != nil {
			return 0, err
		}
		b.Entries = slices.Clone(b.Entries)
		for i, e := range b.Entries {
			data, err := e.Payload.AppendJSON(nil)
			if err != nil {
				return 0, fmt.Errorf("%w: %w", session.ErrInvalidBatch, err)
			}
			var v any
			if json.Unmarshal(data, &v) == nil {
				data, _ = json.Marshal(v)
			}
			b.Entries[i].Payload = session.Raw(data)
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

// showsOldToTheSecond reads without the last batch during another read.
func showsOldToTheSecond(h *brokenJournal) {
	var reading atomic.Int32
	h.change(func(_ session.Key, _ session.Seq, all entryList) entryList {
		defer reading.Add(-1)
		if reading.Add(1) > 1 && len(all) > 0 {
			last := all[len(all)-1].Batch
			all = slices.DeleteFunc(all, func(e session.Entry) bool { return e.Batch == last })
		}
		yieldToOthers()
		return all
	})
}

func forgetsEnd(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if h.nth > 0 && after == 0 {
			after = h.end(root)
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

func forgetsIDs(h *brokenJournal) func(session.Key, session.Seq, entryList) entryList {
	return func(_ session.Key, _ session.Seq, all entryList) entryList {
		for i := range all {
			if h.nth > 0 {
				all[i].Batch = ""
			}
		}
		return all
	}
}

func skipsSnapshotForLate(h *brokenJournal) {
	h.change(func(root session.Key, after session.Seq, all entryList) entryList {
		whole, _ := readEntries(context.Background(), h.inner, root, 0)
		if after > 0 && len(whole) > 0 && after < whole[0].Seq {
			return all[1:]
		}
		return all
	})
}

// forgetsResets keeps everything, and shows what comes after the last reset that this handle has
// seen: only those that took place, or also those that did not.
func forgetsResets(h *brokenJournal, refused bool) {
	from := make(map[session.Key]session.Seq)
	var mu sync.Mutex
	h.append = func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		end, isReset := h.end(root), b.Reset
		b.Reset = b.Reset && refused
		last, err := h.inner.Append(ctx, root, after, b)
		mu.Lock()
		defer mu.Unlock()
		if isReset && (!refused && err == nil || refused && errors.Is(err, session.ErrConflict)) {
			from[root] = end
		}
		return last, err
	}
	h.change(func(root session.Key, _ session.Seq, all entryList) entryList {
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc(all, func(e session.Entry) bool { return e.Seq <= from[root] })
	})
}

func foldsCase(h *brokenJournal) readFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq,
	) iter.Seq2[session.Entry, error] {
		if folded, err := session.Parse(strings.ToLower(root.String())); err == nil {
			root = folded
		}
		return h.inner.Read(ctx, root, after)
	}
}

func refusesOthers(h *brokenJournal) appendFunc {
	var g busyGate[session.Key]
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		others, leave := g.enter(root)
		defer leave()
		if others {
			return 0, errors.New("another log is being written")
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

func hidesReserved(_ session.RootQuery, heads []session.Head) []session.Head {
	return slices.DeleteFunc(heads, func(h session.Head) bool { return !h.Root.IsValid() })
}

func yieldsFive(q session.RootQuery, heads []session.Head) []session.Head {
	if !q.DueBefore.IsZero() && len(heads) > 5 {
		return heads[:5]
	}
	return heads
}

func neverDueAgain(h *brokenJournal) {
	var mu sync.Mutex
	was := make(map[session.Key]bool)
	h.append = func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		mu.Lock()
		was[root] = was[root] || after > 0 && b.Due.IsZero()
		mu.Unlock()
		return h.inner.Append(ctx, root, after, b)
	}
	h.heads(func(q session.RootQuery, heads []session.Head) []session.Head {
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc(
			heads, func(h session.Head) bool { return !q.DueBefore.IsZero() && was[h.Root] },
		)
	})
}

// mendsHalf keeps an index of due times. A query moves a log to its right place in the index, but
// an append compares with the place that the log had before.
func mendsHalf(h *brokenJournal) {
	type item struct{ due, noted, place time.Time }
	var mu sync.Mutex
	index := make(map[session.Key]*item)
	h.append = func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		last, err := h.inner.Append(ctx, root, after, b)
		mu.Lock()
		defer mu.Unlock()
		if index[root] == nil {
			index[root] = &item{}
		}
		if x := index[root]; err == nil {
			x.due = b.Due
			if !x.due.IsZero() && (x.noted.IsZero() || x.due.Before(x.noted)) {
				x.noted, x.place = x.due, x.due
			}
		}
		return last, err
	}
	h.heads(func(q session.RootQuery, heads []session.Head) []session.Head {
		mu.Lock()
		defer mu.Unlock()
		for _, x := range index {
			if !q.DueBefore.IsZero() && !x.due.Before(q.DueBefore) && x.place.Before(q.DueBefore) {
				x.place = x.due
			}
		}
		return slices.DeleteFunc(heads, func(head session.Head) bool {
			x := index[head.Root]
			return !q.DueBefore.IsZero() && x != nil && !x.place.Before(q.DueBefore)
		})
	})
}

func forgetsDue(h *brokenJournal) func(session.RootQuery, []session.Head) []session.Head {
	return func(_ session.RootQuery, heads []session.Head) []session.Head {
		for i := range heads {
			if h.nth > 0 {
				heads[i].Due = time.Time{}
			}
		}
		return heads
	}
}

func yieldsAll(h *brokenJournal) rootsFunc {
	return func(ctx context.Context, q session.RootQuery) iter.Seq2[session.Head, error] {
		return h.inner.Roots(ctx, session.RootQuery{Member: q.Member})
	}
}

func goesOn(h *brokenJournal) readFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq,
	) iter.Seq2[session.Entry, error] {
		return ignoreStop(h.inner.Read(ctx, root, after))
	}
}

func takesEmpty(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if len(b.Entries) == 0 {
			return after, nil
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

func ignoresContext(h *brokenJournal) {
	h.read = func(
		ctx context.Context, root session.Key, after session.Seq,
	) iter.Seq2[session.Entry, error] {
		return h.inner.Read(context.WithoutCancel(ctx), root, after)
	}
}

// namesFirst knows the first member of each batch.
func namesFirst(h *brokenJournal) appendFunc {
	return changesBatch(h, func(b session.Batch) session.Batch {
		if !b.Reset && len(b.Entries) == 1 && !b.Due.IsZero() && len(b.Members) > 2 {
			b.Members = b.Members[1:2]
		}
		return b
	})
}

func dropsMembersOfResets(h *brokenJournal) appendFunc {
	return changesBatch(h, func(b session.Batch) session.Batch {
		if b.ID == "snapshot" {
			b.Members = nil
		}
		return b
	})
}

// changesBatch appends what f makes of a valid batch.
func changesBatch(h *brokenJournal, f func(session.Batch) session.Batch) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if b.Validate() == nil {
			b = f(b)
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

func forgetsMembers(h *brokenJournal) rootsFunc {
	return func(ctx context.Context, q session.RootQuery) iter.Seq2[session.Head, error] {
		if h.nth > 0 && !q.Member.IsZero() {
			return func(func(session.Head, error) bool) {}
		}
		return h.inner.Roots(ctx, q)
	}
}

func looksThroughAll(h *brokenJournal) rootsFunc {
	return func(ctx context.Context, q session.RootQuery) iter.Seq2[session.Head, error] {
		q.Member = session.Key{}
		return h.inner.Roots(ctx, q)
	}
}

// bulkSize returns the size of the entries of bulk in a batch.
func bulkSize(b session.Batch) (size int) {
	for _, e := range b.Entries {
		if n, ok := e.Payload.(bulk); ok {
			size += int(n)
		}
	}
	return size
}

// takesNoPacket refuses one large entry, as an engine with small messages would.
func takesNoPacket(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if len(b.Entries) == 1 && bulkSize(b) > batchBytes/2 {
			return 0, session.ErrInvalidBatch
		}
		return h.inner.Append(ctx, root, after, b)
	}
}

// splitsSnapshot keeps the last part of a large snapshot.
func splitsSnapshot(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if !b.Reset || bulkSize(b) == 0 || bulkSize(b) > batchBytes {
			return h.inner.Append(ctx, root, after, b)
		}
		first, rest := b, b
		first.Entries, rest.Entries = b.Entries[:1], b.Entries[1:]
		after, err := h.inner.Append(ctx, root, after, first)
		if err != nil {
			return 0, err
		}
		return h.inner.Append(ctx, root, after, rest)
	}
}

// addsUpToLimit adds the entries of a batch that is too large up to the limit.
func addsUpToLimit(h *brokenJournal) appendFunc {
	return func(
		ctx context.Context, root session.Key, after session.Seq, b session.Batch,
	) (session.Seq, error) {
		if bulkSize(b) <= batchBytes {
			return h.inner.Append(ctx, root, after, b)
		}
		b.Entries = b.Entries[:1]
		if _, err := h.inner.Append(ctx, root, after, b); err != nil {
			return 0, err
		}
		return 0, session.ErrInvalidBatch
	}
}
