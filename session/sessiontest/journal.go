package sessiontest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// An OpenFunc opens the same underlying logs each time that it is called, as a process that starts again would. What it returns is
// closed before the next call, if it is an [io.Closer].
type OpenFunc = func() (session.Journal, error)

// TestJournal runs every rule of [session.Journal] in a subtest that quotes the rule. It calls fresh once for each rule, for a place
// that holds no log.
func TestJournal(t *testing.T, fresh func(t *testing.T) OpenFunc) {
	t.Helper()
	run(t, journalRules, fresh)
}

type (
	journalRule  = rule[session.Journal]
	journalProbe = probe[session.Journal]
)

var journalRules = []journalRule{
	{"empty", "The log of a root that has none ends at zero, and Read yields nothing of it.", checkEmpty},
	{"order", "Read yields the entries in order, with sequences that grow.", checkOrder},
	{"after", "Read yields the entries whose sequence is greater than after, wherever in a batch that is.", checkAfter},
	{"last", "Append returns the sequence of the last entry that it added, which is where the log then ends.", checkLast},
	{"stale", "Append adds nothing and returns ErrConflict if the log has gone on beyond after.", checkStale},
	{"ahead", "Append adds nothing and returns ErrConflict if the log does not reach after.", checkAhead},
	{"one winner", "Of 64 goroutines that append after the same sequence, exactly one succeeds; the others get ErrConflict.", checkOneWinner},
	{"whole batches", "Read yields no part of a batch without the rest, also while it is being appended.", checkWholeBatches},
	{"all or nothing", "A batch with a payload that cannot be encoded is refused whole, or taken whole.", checkAllOrNothing},
	{"batch id", "Every entry carries the id of the batch that it came in.", checkBatchID},
	{"payload", "A payload is read back as the JSON value that it was.", checkPayload},
	{"visible", "Once Append has returned, every Read sees the batch, from any goroutine.", checkVisible},
	{"durable", "Once Append has returned, the batch is there when the journal is opened again, and the log goes on from it.", checkDurable},
	{"lost acknowledgement", "A batch is recognised by its id after the journal is opened again.", checkLostAck},
	{"reset", "After a reset, Read starts at the snapshot, whatever it is asked for, and sequences go on growing.", checkReset},
	{"reset durable", "A reset is still one when the journal is opened again.", checkResetDurable},
	{"reset conflict", "A reset that conflicts drops nothing.", checkResetConflict},
	{"apart", "Logs are kept apart, however alike their roots are.", checkApart},
	{"at once", "Logs of different roots can be appended to from many goroutines at once.", checkAtOnce},
	{"roots", "Roots yields every log once, those of reserved roots included, with its last sequence and its due time.", checkRoots},
	{"due", "Roots with a DueBefore leaves out no log that is due before it.", checkDue},
	{"due moves", "The Due of a batch replaces that of the batch before, to earlier as to later.", checkDueMoves},
	{"due durable", "A log is due as before when the journal is opened again.", checkDueDurable},
	{"never due", "Roots with a DueBefore does not go through logs that were never due.", checkNeverDue},
	{"early stop", "A loop over Read or Roots may append, and may end early, and then holds nothing up.", checkEarlyStop},
	{"invalid", "Append refuses a batch without entries or payload with ErrInvalidBatch and the zero root with ErrInvalidKey, and adds nothing.", checkInvalid},
	{"context", "A ctx that is done makes Append add nothing and Read and Roots yield its error, and nothing after it.", checkContext},
	{"closed", "After Close, every method returns ErrClosed.", checkClosed},
}

// A fact is the kit's own payload.
type fact string

func (f fact) AppendJSON(b []byte) ([]byte, error) {
	text, err := json.Marshal(string(f))
	return append(b, text...), err
}

// A badFact cannot be encoded.
type badFact struct{}

var errBadFact = errors.New("sessiontest: this payload cannot be encoded")

func (badFact) AppendJSON(b []byte) ([]byte, error) { return b, errBadFact }

var (
	rootA = session.Main("a")
	rootB = session.Main("b")

	// noon is a time that every format keeps.
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// batch returns a batch of facts that name themselves: its id and their number.
func batch(id string, n int) session.Batch {
	b := session.Batch{ID: session.BatchID(id)}
	for i := range n {
		b.Entries = append(b.Entries, session.Entry{Payload: fact(fmt.Sprintf("%s/%d", id, i))})
	}
	return b
}

func dueAt(b session.Batch, due time.Time) session.Batch {
	b.Due = due
	return b
}

func reset(b session.Batch) session.Batch {
	b.Reset = true
	return b
}

// add appends and fails the rule if that fails.
func add(p *journalProbe, j session.Journal, root session.Key, after session.Seq, b session.Batch) session.Seq {
	last, err := j.Append(p.ctx, root, after, b)
	p.must(fmt.Sprintf("append %q to %q after %d", b.ID, root, after), err)
	return last
}

// read returns the entries after a sequence.
func read(ctx context.Context, j session.Journal, root session.Key, after session.Seq) ([]session.Entry, error) {
	var entries []session.Entry
	for e, err := range j.Read(ctx, root, after) {
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func entriesOf(p *journalProbe, j session.Journal, root session.Key, after session.Seq) []session.Entry {
	entries, err := read(p.ctx, j, root, after)
	p.must(fmt.Sprintf("read %q after %d", root, after), err)
	return entries
}

// said returns what the payload of e says, if it is a JSON string.
func said(e session.Entry) string {
	if e.Payload == nil {
		return "no payload"
	}
	data, err := e.Payload.AppendJSON(nil)
	if err != nil {
		return err.Error()
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return string(data)
	}
	return s
}

// wantFacts fails the rule unless the log of root after a sequence says exactly what is wanted.
func wantFacts(p *journalProbe, j session.Journal, root session.Key, after session.Seq, want ...string) {
	var got []string
	for _, e := range entriesOf(p, j, root, after) {
		got = append(got, said(e))
	}
	if !slices.Equal(got, want) {
		p.fail("read %q after %d: got %q, want %q", root, after, got, want)
	}
}

// facts returns what batch(id, n) says.
func facts(id string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s/%d", id, i))
	}
	return all
}

func checkEmpty(p *journalProbe) {
	j := p.open()
	wantFacts(p, j, rootA, 0)
	wantFacts(p, j, rootA, 7)
	for h, err := range j.Roots(p.ctx, session.RootQuery{}) {
		p.must("roots", err)
		p.fail("roots: got the log %q where none was written", h.Root)
	}
}

func checkOrder(p *journalProbe) {
	j := p.open()
	var last session.Seq
	var want []string
	for i := range 20 {
		id := fmt.Sprint("b", i)
		last = add(p, j, rootA, last, batch(id, 1+i%3))
		want = append(want, facts(id, 1+i%3)...)
	}
	wantFacts(p, j, rootA, 0, want...)
	var before session.Seq
	for _, e := range entriesOf(p, j, rootA, 0) {
		if e.Seq <= before {
			p.fail("entry %q has sequence %d after %d", said(e), e.Seq, before)
		}
		before = e.Seq
	}
}

func checkAfter(p *journalProbe) {
	j := p.open()
	add(p, j, rootA, add(p, j, rootA, 0, batch("x", 3)), batch("y", 3))
	all := entriesOf(p, j, rootA, 0)
	for i, e := range all {
		var want []string
		for _, later := range all[i+1:] {
			want = append(want, said(later))
		}
		wantFacts(p, j, rootA, e.Seq, want...)
	}
}

func checkLast(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, batch("x", 3))
	for range 2 {
		entries := entriesOf(p, j, rootA, 0)
		if len(entries) == 0 || entries[len(entries)-1].Seq != last {
			p.fail("append returned %d, but the log is %v", last, entries)
		}
		last = add(p, j, rootA, last, batch("y", 2))
	}
}

func checkStale(p *journalProbe) {
	j := p.open()
	first := add(p, j, rootA, 0, batch("x", 2))
	add(p, j, rootA, first, batch("y", 2))
	middle := entriesOf(p, j, rootA, first)[0].Seq
	for _, after := range []session.Seq{0, first, middle} {
		_, err := j.Append(p.ctx, rootA, after, batch("stale", 1))
		p.wantIs(fmt.Sprintf("append after %d", after), err, session.ErrConflict)
	}
	wantFacts(p, j, rootA, 0, append(facts("x", 2), facts("y", 2)...)...)
}

func checkAhead(p *journalProbe) {
	j := p.open()
	_, err := j.Append(p.ctx, rootA, 1, batch("ahead", 1))
	p.wantIs("append after 1 to a log that does not exist", err, session.ErrConflict)
	last := add(p, j, rootA, 0, batch("x", 2))
	_, err = j.Append(p.ctx, rootA, last+1, batch("ahead", 1))
	p.wantIs("append beyond the end", err, session.ErrConflict)
	wantFacts(p, j, rootA, 0, facts("x", 2)...)
}

func checkOneWinner(p *journalProbe) {
	j := p.open()
	const rivals, rounds = 64, 8
	var last session.Seq
	var want []string
	for round := range rounds {
		var (
			mu      sync.Mutex
			wg      sync.WaitGroup
			winners []string
			next    session.Seq
			strange error
		)
		for i := range rivals {
			wg.Go(func() {
				id := fmt.Sprintf("r%d-%d", round, i)
				seq, err := j.Append(p.ctx, rootA, last, batch(id, 1))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					winners, next = append(winners, id), seq
				case !errors.Is(err, session.ErrConflict):
					strange = err
				}
			})
		}
		wg.Wait()
		p.must("append among rivals", strange)
		if len(winners) != 1 {
			p.fail("%d of %d appends after %d succeeded: %q", len(winners), rivals, last, winners)
		}
		last, want = next, append(want, facts(winners[0], 1)...)
	}
	wantFacts(p, j, rootA, 0, want...)
}

func checkWholeBatches(p *journalProbe) {
	j := p.open()
	const batches, size = 40, 5
	done := make(chan struct{})
	broken := make(chan error, 4)
	var wg sync.WaitGroup
	for range cap(broken) {
		wg.Go(func() {
			for {
				entries, err := read(p.ctx, j, rootA, 0)
				if err == nil && len(entries)%size != 0 {
					err = fmt.Errorf("a read among appends of %d entries saw %d", size, len(entries))
				}
				if err != nil {
					broken <- err
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	var last session.Seq
	var failed error
	for i := 0; i < batches && failed == nil; i++ {
		last, failed = j.Append(p.ctx, rootA, last, batch(fmt.Sprint("b", i), size))
	}
	close(done)
	wg.Wait()
	close(broken)
	p.must("append", failed)
	for err := range broken {
		p.fail("%w", err)
	}
}

func checkAllOrNothing(p *journalProbe) {
	j := p.open()
	b := batch("mixed", 3)
	b.Entries[1].Payload = badFact{}
	_, err := j.Append(p.ctx, rootA, 0, b)
	n := 0
	for e, readErr := range j.Read(p.ctx, rootA, 0) {
		if readErr != nil {
			p.fail("the log cannot be read after a batch that cannot be encoded: %w", readErr)
		}
		_ = e
		n++
	}
	if err == nil && n != 3 || err != nil && n != 0 {
		p.fail("append of 3 entries, one of which cannot be encoded, returned %v and added %d", err, n)
	}
}

func checkBatchID(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, batch("one", 2))
	last = add(p, j, rootA, last, batch("two", 1))
	add(p, j, rootA, last, reset(batch("three", 2)))
	add(p, j, rootB, 0, batch("one", 1))
	for _, root := range []session.Key{rootA, rootB} {
		for _, e := range entriesOf(p, j, root, 0) {
			if id, _, _ := strings.Cut(said(e), "/"); session.BatchID(id) != e.Batch {
				p.fail("entry %q of %q carries the batch id %q", said(e), root, e.Batch)
			}
		}
	}
}

// hardValues are JSON values that careless storage changes.
var hardValues = []string{
	`null`, `true`, `""`, `[]`, `{}`, `{"a":{"b":[1,2.50,-0.0,1e400]}}`,
	`9007199254740993`, `123456789012345678901234567890`,
	`"<a href=\"x\">&amp;</a>"`, `"\u0000\u001f\u2028 and \\n"`, `"line\nbreak\r\n"`, `"😀 ünïcödé 中文"`, `"'; DROP TABLE logs; --"`,
	`{"z":1,"a":2,"":3}`,
}

func checkPayload(p *journalProbe) {
	j := p.open()
	b := session.Batch{ID: "hard"}
	for _, v := range hardValues {
		b.Entries = append(b.Entries, session.Entry{Payload: session.Raw(v)})
	}
	long, err := json.Marshal(strings.Repeat("long ", 50_000))
	p.must("encode", err)
	b.Entries = append(b.Entries, session.Entry{Payload: session.Raw(long)})
	wanted := append(slices.Clone(hardValues), string(long))
	add(p, j, rootA, 0, b)
	entries := entriesOf(p, j, rootA, 0)
	if len(entries) != len(wanted) {
		p.fail("got %d entries, want %d", len(entries), len(wanted))
	}
	for i, e := range entries {
		got, err := e.Payload.AppendJSON(nil)
		p.must("encode what was read", err)
		if !sameJSON(got, []byte(wanted[i])) {
			p.fail("payload %.100q was read back as %.100q", wanted[i], got)
		}
	}
}

// sameJSON reports whether two texts are the same JSON value, every digit of numbers included.
func sameJSON(a, b []byte) bool {
	canonical := func(data []byte) (string, error) {
		var v any
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			return "", err
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return "", errors.New("more than one value")
		}
		out, err := json.Marshal(v)
		return string(out), err
	}
	x, errX := canonical(a)
	y, errY := canonical(b)
	return errX == nil && errY == nil && x == y
}

func checkVisible(p *journalProbe) {
	j := p.open()
	var last session.Seq
	for i := range 20 {
		next := add(p, j, rootA, last, batch(fmt.Sprint("b", i), 2))
		seen := make(chan int)
		for range 4 {
			go func() {
				entries, err := read(p.ctx, j, rootA, last)
				if err != nil {
					entries = nil
				}
				seen <- len(entries)
			}()
		}
		for range 4 {
			if n := <-seen; n != 2 {
				defer p.fail("after append %d had returned, a read saw %d of its 2 entries", i, n)
			}
		}
		last = next
	}
}

func checkDurable(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, batch("x", 2))
	j = p.reopen()
	wantFacts(p, j, rootA, 0, facts("x", 2)...)
	_, err := j.Append(p.ctx, rootA, 0, batch("stale", 1))
	p.wantIs("append after 0 to the log that was opened again", err, session.ErrConflict)
	add(p, j, rootA, last, batch("y", 1))
	wantFacts(p, p.reopen(), rootA, 0, append(facts("x", 2), facts("y", 1)...)...)
}

func checkLostAck(p *journalProbe) {
	j := p.open()
	known := add(p, j, rootA, 0, batch("known", 1))
	add(p, j, rootA, known, batch("unsure", 2)) // as if this answer had been lost
	j = p.reopen()
	var last session.Seq
	for _, e := range entriesOf(p, j, rootA, known) {
		if e.Batch != "unsure" {
			p.fail("the batch %q was read back as %q", "unsure", e.Batch)
		}
		last = e.Seq
	}
	add(p, j, rootA, last, batch("next", 1))
}

func checkReset(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, batch("old", 3))
	last = add(p, j, rootA, last, reset(batch("snap", 2)))
	entries := entriesOf(p, j, rootA, 0)
	if len(entries) != 2 || entries[0].Seq <= last-2 && entries[0].Seq == 0 || entries[1].Seq != last {
		p.fail("after a reset the log is %v, want the 2 entries of the snapshot, the last with sequence %d", entries, last)
	}
	for _, after := range []session.Seq{0, 1, 2} {
		wantFacts(p, j, rootA, after, facts("snap", 2)...)
	}
	if old := session.Seq(3); last <= old {
		p.fail("the sequence went from %d to %d over a reset", old, last)
	}
	add(p, j, rootA, last, batch("new", 1))
	wantFacts(p, j, rootA, 0, append(facts("snap", 2), facts("new", 1)...)...)
	wantFacts(p, j, rootA, last, facts("new", 1)...)
}

func checkResetDurable(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, batch("old", 3))
	last = add(p, j, rootA, last, reset(batch("snap", 1)))
	last = add(p, j, rootA, last, batch("new", 1))
	j = p.reopen()
	wantFacts(p, j, rootA, 0, append(facts("snap", 1), facts("new", 1)...)...)
	add(p, j, rootA, last, batch("newer", 1))
}

func checkResetConflict(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, batch("x", 2))
	add(p, j, rootA, last, batch("y", 1))
	_, err := j.Append(p.ctx, rootA, last, reset(batch("snap", 1)))
	p.wantIs("a reset after a stale sequence", err, session.ErrConflict)
	wantFacts(p, j, rootA, 0, append(facts("x", 2), facts("y", 1)...)...)
}

// alikeRoots are roots that careless storage takes for one another or cannot name.
func alikeRoots() []session.Key {
	long := strings.Repeat("x", session.MaxKeyLen-len("agent:main:matrix:channel:"))
	return []session.Key{
		session.Main("main"), session.Named("main", "main2"), session.Named("main", "main.2"), session.Named("main", "main_2"),
		session.Group("main", "telegram", "-100"), session.Group("main", "telegram", "-100").Topic("42"),
		session.Group("main", "telegram", "-100").Thread("42"), session.Group("main", "telegram", "-10042"),
		session.Channel("main", "matrix", "!Room:example.org"), session.Channel("main", "matrix", "!room:example.org"),
		session.Channel("main", "matrix", "../../etc/passwd"), session.Channel("main", "matrix", "%2e%2e"),
		session.Channel("main", "matrix", ".."), session.Channel("main", "matrix", "a.b>c*d"), session.Channel("main", "matrix", `a\b"c'd`),
		session.Channel("main", "matrix", long), session.Channel("main", "matrix", long[:len(long)-1]),
		session.Direct("main", "telegram", "中文"), session.Global(), session.BindingsRoot(),
	}
}

func checkApart(p *journalProbe) {
	j := p.open()
	roots := alikeRoots()
	lasts := make([]session.Seq, len(roots))
	for i, root := range roots {
		lasts[i] = add(p, j, root, 0, batch(fmt.Sprint("first", i), 1))
	}
	for i, root := range roots {
		add(p, j, root, lasts[i], batch(fmt.Sprint("second", i), 1))
	}
	j = p.reopen()
	for i, root := range roots {
		wantFacts(p, j, root, 0, fmt.Sprintf("first%d/0", i), fmt.Sprintf("second%d/0", i))
	}
}

func checkAtOnce(p *journalProbe) {
	j := p.open()
	const logs, batches = 16, 8
	failed := make([]error, logs)
	var wg sync.WaitGroup
	for i := range logs {
		wg.Go(func() {
			var last session.Seq
			for n := 0; n < batches && failed[i] == nil; n++ {
				last, failed[i] = j.Append(p.ctx, session.Named("main", fmt.Sprint("log", i)), last, batch(fmt.Sprintf("%d-%d", i, n), 2))
			}
		})
	}
	wg.Wait()
	p.must("append beside others", errors.Join(failed...))
	for i := range logs {
		var want []string
		for n := range batches {
			want = append(want, facts(fmt.Sprintf("%d-%d", i, n), 2)...)
		}
		wantFacts(p, j, session.Named("main", fmt.Sprint("log", i)), 0, want...)
	}
}

// rootsOf returns the heads that a query yields, and fails the rule if one comes twice.
func rootsOf(p *journalProbe, j session.Journal, q session.RootQuery) map[session.Key]session.Head {
	heads := make(map[session.Key]session.Head)
	for h, err := range j.Roots(p.ctx, q) {
		p.must("roots", err)
		if _, twice := heads[h.Root]; twice {
			p.fail("roots: %q came twice", h.Root)
		}
		heads[h.Root] = h
	}
	return heads
}

func checkRoots(p *journalProbe) {
	j := p.open()
	want := make(map[session.Key]session.Head)
	for i, root := range alikeRoots() {
		h := session.Head{Root: root}
		if i%2 == 0 {
			h.Due = noon.Add(time.Duration(i) * time.Hour)
		}
		h.Last = add(p, j, root, 0, dueAt(batch(fmt.Sprint("b", i), 1+i%3), h.Due))
		want[root] = h
	}
	got := rootsOf(p, j, session.RootQuery{})
	for root, h := range want {
		g, ok := got[root]
		if !ok || g.Last != h.Last || !g.Due.Equal(h.Due) {
			p.fail("roots: got %+v, want %+v", g, h)
		}
	}
	if len(got) != len(want) {
		p.fail("roots: got %d logs, want %d", len(got), len(want))
	}
}

// wantDue fails the rule unless Roots yields all of the roots for a time.
func wantDue(p *journalProbe, j session.Journal, before time.Time, want ...session.Key) {
	got := rootsOf(p, j, session.RootQuery{DueBefore: before})
	for _, root := range want {
		if _, ok := got[root]; !ok {
			p.fail("roots due before %v: %q is not among the %d", before, root, len(got))
		}
	}
}

func checkDue(p *journalProbe) {
	j := p.open()
	var roots []session.Key
	for i := range 10 {
		root := session.Named("main", fmt.Sprint("log", i))
		add(p, j, root, 0, dueAt(batch("b", 1), noon.Add(time.Duration(9-i)*time.Hour)))
		roots = append([]session.Key{root}, roots...)
	}
	for i := range roots {
		wantDue(p, j, noon.Add(time.Duration(i)*time.Hour+1), roots[:i+1]...)
	}
	wantDue(p, j, noon.AddDate(100, 0, 0), roots...)
}

func checkDueMoves(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, dueAt(batch("noon", 1), noon))
	for _, due := range []time.Time{noon.Add(time.Hour), noon.Add(-time.Hour), {}, noon.Add(2 * time.Hour), noon} {
		last = add(p, j, rootA, last, dueAt(batch("to "+due.Format(time.RFC3339), 1), due))
		if h := rootsOf(p, j, session.RootQuery{})[rootA]; !h.Due.Equal(due) {
			p.fail("roots: the log is due at %v, want %v", h.Due, due)
		}
		if !due.IsZero() {
			wantDue(p, j, due.Add(1), rootA)
		}
	}
}

func checkDueDurable(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, dueAt(batch("x", 1), noon.Add(time.Hour)))
	add(p, j, rootA, last, dueAt(batch("y", 1), noon))
	j = p.reopen()
	wantDue(p, j, noon.Add(1), rootA)
	if h := rootsOf(p, j, session.RootQuery{})[rootA]; !h.Due.Equal(noon) {
		p.fail("roots: the log is due at %v after it was opened again, want %v", h.Due, noon)
	}
}

func checkNeverDue(p *journalProbe) {
	j := p.open()
	for i := range 50 {
		add(p, j, session.Named("main", fmt.Sprint("idle", i)), 0, batch("b", 1))
	}
	add(p, j, rootA, 0, dueAt(batch("b", 1), noon))
	got := rootsOf(p, j, session.RootQuery{DueBefore: noon.Add(time.Hour)})
	delete(got, rootA)
	if len(got) > 0 {
		p.fail("roots due before a time: %d of 50 logs that were never due are among them", len(got))
	}
}

func checkEarlyStop(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, dueAt(batch("x", 3), noon))
	add(p, j, rootB, 0, dueAt(batch("x", 3), noon))
	loops := []func(yield func() bool){
		func(yield func() bool) {
			j.Read(p.ctx, rootA, 0)(func(session.Entry, error) bool { return yield() })
		},
		func(yield func() bool) {
			j.Roots(p.ctx, session.RootQuery{})(func(session.Head, error) bool { return yield() })
		},
		func(yield func() bool) {
			j.Roots(p.ctx, session.RootQuery{DueBefore: noon.Add(1)})(func(session.Head, error) bool { return yield() })
		},
	}
	for i, loop := range loops {
		calls := 0
		loop(func() bool {
			calls++
			last = add(p, j, rootA, last, dueAt(batch(fmt.Sprint("inside", i), 1), noon))
			return false
		})
		if calls != 1 {
			p.fail("loop %d went on %d times after it was told to stop", i, calls-1)
		}
		last = add(p, j, rootA, last, dueAt(batch(fmt.Sprint("outside", i), 1), noon))
	}
}

func checkInvalid(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, batch("x", 1))
	_, err := j.Append(p.ctx, rootA, last, session.Batch{ID: "none"})
	p.wantIs("append of no entries", err, session.ErrInvalidBatch)
	_, err = j.Append(p.ctx, rootA, last, session.Batch{ID: "none", Reset: true})
	p.wantIs("a reset without a snapshot", err, session.ErrInvalidBatch)
	b := batch("hole", 3)
	b.Entries[2].Payload = nil
	_, err = j.Append(p.ctx, rootA, last, b)
	p.wantIs("append of an entry without a payload", err, session.ErrInvalidBatch)
	_, err = j.Append(p.ctx, session.Key{}, 0, batch("x", 1))
	p.wantIs("append to the zero root", err, session.ErrInvalidKey)
	wantFacts(p, j, rootA, 0, facts("x", 1)...)
}

func checkContext(p *journalProbe) {
	j := p.open()
	last := add(p, j, rootA, 0, dueAt(batch("x", 2), noon))
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	_, err := j.Append(ctx, rootA, last, batch("late", 1))
	p.wantIs("append with a ctx that is done", err, context.Canceled)
	wantFacts(p, j, rootA, 0, facts("x", 2)...)
	var errs []error
	for e, err := range j.Read(ctx, rootA, 0) {
		if err == nil {
			p.fail("read with a ctx that is done yielded entry %d", e.Seq)
		}
		errs = append(errs, err)
	}
	for _, q := range []session.RootQuery{{}, {DueBefore: noon.Add(1)}} {
		for h, err := range j.Roots(ctx, q) {
			if err == nil {
				p.fail("roots with a ctx that is done yielded %q", h.Root)
			}
			errs = append(errs, err)
		}
	}
	if len(errs) != 3 {
		p.fail("read and two calls of roots with a ctx that is done yielded %d errors, want one each", len(errs))
	}
	for _, err := range errs {
		p.wantIs("read or roots with a ctx that is done", err, context.Canceled)
	}
}

func checkClosed(p *journalProbe) {
	j := p.open()
	c, ok := j.(io.Closer)
	if !ok {
		return
	}
	last := add(p, j, rootA, 0, dueAt(batch("x", 1), noon))
	p.must("close", c.Close())
	p.opened = nil
	_, err := j.Append(p.ctx, rootA, last, batch("late", 1))
	p.wantIs("append after close", err, session.ErrClosed)
	for _, err := range j.Read(p.ctx, rootA, 0) {
		p.wantIs("read after close", err, session.ErrClosed)
	}
	for _, q := range []session.RootQuery{{}, {DueBefore: noon.Add(1)}} {
		for _, err := range j.Roots(p.ctx, q) {
			p.wantIs("roots after close", err, session.ErrClosed)
		}
	}
}
