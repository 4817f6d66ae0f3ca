package pgstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

const ledgerLease = 30 * time.Second

// A double is a ledger beside the state in memory that it must agree with, under a clock that the
// test sets.
type double struct {
	t      *testing.T
	s      *server
	schema string
	ledger pgstore.Ledger
	state  *lease.State
	rng    *rand.Rand
	now    time.Time

	processes []session.Process
	current   map[string]session.Process
	claims    []session.Claim              // that were given out
	epochs    map[uint64]uint64            // of the state, to those of the ledger
	last      uint64                       // epoch of the ledger
	told      map[session.Process][]uint64 // epochs that the last beat has told of
	took      map[session.Process][]string
	roots     []session.Key
}

func newDouble(t *testing.T, seed uint64) *double {
	s := theServer(t)
	o := pgstore.Options{Schema: freshSchema(), TrustSync: true, Process: "opener"}
	store := s.open(t, o)
	d := &double{
		t: t, s: s, schema: o.Schema, ledger: pgstore.LedgerOf(store),
		state: lease.NewState(ledgerLease), rng: rand.New(rand.NewPCG(seed, seed)),
		now:     time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		current: make(map[string]session.Process), epochs: make(map[uint64]uint64),
		told: make(map[session.Process][]uint64), took: make(map[session.Process][]string),
	}
	d.state.NewProcess("opener") // its incarnation is given out, too
	s.query(t, `create table `+o.Schema+`.test_clock (at timestamptz)`)
	s.query(t, `insert into `+o.Schema+`.test_clock values ($1)`, d.now)
	s.query(t, `create or replace function `+o.Schema+`.clock() returns timestamptz volatile
		language sql as 'select at from `+o.Schema+`.test_clock'`)
	for i := range 4 {
		root := session.Must(session.NamedKey("main", fmt.Sprint("tree", i)))
		b := entries("a", 1)
		b.Due = d.now
		_, err := store.Journal.Append(t.Context(), root, 0, b)
		require.NoError(t, err)
		d.roots = append(d.roots, root)
	}
	for _, name := range []string{"a", "b", "c"} {
		d.join(name)
	}
	return d
}

// join has another process of a name, which has not joined yet.
func (d *double) join(name string) {
	p, err := d.ledger.NewProcess(d.t.Context(), name)
	require.NoError(d.t, err)
	require.Equal(d.t, d.state.NewProcess(name), p)
	d.processes, d.current[name] = append(d.processes, p), p
}

// pass lets time pass.
func (d *double) pass(by time.Duration) {
	d.now = d.now.Add(by)
	d.s.query(d.t, `update `+d.schema+`.test_clock set at = $1`, d.now)
}

// anyProcess returns a process, mostly one that was not replaced.
func (d *double) anyProcess() session.Process {
	if d.rng.IntN(6) == 0 {
		return d.processes[d.rng.IntN(len(d.processes))]
	}
	return d.current[string(rune('a'+d.rng.IntN(3)))]
}

func (d *double) anyRoot() session.Key { return d.roots[d.rng.IntN(len(d.roots))] }

// mapped returns a claim of the state as the ledger has it.
func (d *double) mapped(c session.Claim) session.Claim {
	c.Epoch = d.epochs[c.Epoch]
	return c
}

// sameError fails the test unless two errors are the same to a caller.
func (d *double) sameError(doing string, want, got error) {
	d.t.Helper()
	var wantOwned, gotOwned *session.OwnedError
	if errors.As(want, &wantOwned) {
		require.ErrorAs(d.t, got, &gotOwned, doing)
		require.Equal(d.t, d.mapped(wantOwned.Claim), gotOwned.Claim, doing)
		return
	}
	for _, kind := range []error{
		session.ErrReplaced, session.ErrNoOwner, session.ErrUnanswered, session.ErrInvalidRequest,
	} {
		require.Equal(d.t, errors.Is(want, kind), errors.Is(got, kind),
			"%s: %v and %v", doing, want, got)
	}
	require.Equal(d.t, want == nil, got == nil, "%s: %v and %v", doing, want, got)
}

func (d *double) claim(p session.Process, root session.Key) {
	want, wantErr := d.state.Claim(p, root, d.now)
	got, err := d.ledger.Claim(d.t.Context(), p, ledgerLease, root)
	d.sameError("claim", wantErr, err)
	if wantErr != nil {
		return
	}
	if d.epochs[want.Epoch] == 0 {
		require.Greater(d.t, got.Epoch, d.last)
		d.epochs[want.Epoch], d.last = got.Epoch, got.Epoch
		d.claims = append(d.claims, want)
	}
	require.Equal(d.t, d.mapped(want), got)
}

func (d *double) beat(p session.Process) {
	want, wantErr := d.state.Beat(p, d.now)
	known := d.told[p]
	got, _, err := d.ledger.Beat(d.t.Context(), p, ledgerLease, known)
	d.sameError("beat", wantErr, err)
	var fresh, mapped []session.Claim
	d.told[p] = nil
	for _, c := range got {
		d.told[p] = append(d.told[p], c.Epoch)
		if !slices.Contains(known, c.Epoch) {
			fresh = append(fresh, c)
		}
	}
	for _, c := range want {
		mapped = append(mapped, d.mapped(c))
	}
	require.ElementsMatch(d.t, mapped, fresh, "taken from %s", p)
}

func (d *double) release(p session.Process, c session.Claim) {
	d.state.Release(p, c)
	require.NoError(d.t, d.ledger.Release(d.t.Context(), p, d.mapped(c)))
}

func (d *double) leave(p session.Process) {
	d.state.Leave(p)
	require.NoError(d.t, d.ledger.Leave(d.t.Context(), p))
	d.told[p] = nil
}

func (d *double) ask(r session.Request) {
	require.NoError(d.t, d.ledger.Sweep(d.t.Context()))
	d.sameError("ask", d.state.Ask(r, d.now), d.ledger.Ask(d.t.Context(), r))
}

func (d *double) take(p session.Process) {
	want := d.state.Take(p, d.now)
	got, err := d.ledger.Take(d.t.Context(), p, d.took[p])
	require.NoError(d.t, err)
	require.Len(d.t, got, len(want))
	for i, r := range got {
		require.Equal(d.t, want[i], r)
		d.took[p] = append(d.took[p], r.ID)
	}
}

func (d *double) answer(p session.Process, id string) {
	text := fmt.Append(nil, p, id)
	d.state.Answer(p, id, text, d.now)
	require.NoError(d.t, d.ledger.Answer(d.t.Context(), p, id, text))
}

func (d *double) outcome(id string) {
	want, wantDone, wantErr := d.state.Outcome(id, d.now)
	got, done, err := d.ledger.Outcome(d.t.Context(), id)
	d.sameError("outcome", wantErr, err)
	require.Equal(d.t, wantDone, done)
	require.Equal(d.t, string(want), string(got))
}

// step does one thing to both, and compares who has which tree.
func (d *double) step() {
	p := d.anyProcess()
	id := fmt.Sprint("request ", d.rng.IntN(6))
	switch d.rng.IntN(16) {
	case 0:
		d.join(string(rune('a' + d.rng.IntN(3))))
	case 1, 2, 3:
		d.claim(p, d.anyRoot())
	case 4, 5:
		d.beat(p)
	case 6:
		if len(d.claims) > 0 {
			d.release(p, d.claims[len(d.claims)-1-d.rng.IntN(min(4, len(d.claims)))])
		}
	case 7:
		d.leave(p)
	case 8, 9:
		d.ask(session.Request{ID: id, Root: d.anyRoot(), Body: []byte(id)})
	case 10, 11:
		d.take(p)
	case 12:
		d.answer(p, id)
	case 13:
		d.outcome(id)
	case 14:
		d.pass(time.Duration(d.rng.Int64N(int64(ledgerLease))))
	case 15:
		d.pass([]time.Duration{ledgerLease, time.Second, session.RequestMemory}[d.rng.IntN(3)])
	}
	var orphans []session.Key
	for _, root := range d.roots {
		if _, owned := d.state.Owner(root, d.now); !owned {
			orphans = append(orphans, root)
		}
	}
	got, err := d.ledger.Orphans(d.t.Context())
	require.NoError(d.t, err)
	require.ElementsMatch(d.t, orphans, got, "trees without an owner")
}

// TestLedgerAgreesWithTheState does the same to the tables and to the state in memory, at random.
func TestLedgerAgreesWithTheState(t *testing.T) {
	for seed := range uint64(enginetest.Rounds(3, 40)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			d := newDouble(t, seed)
			for range 300 {
				d.step()
			}
			assert.Greater(t, len(d.claims), 10)
		})
	}
}

// TestTakenWithoutAnAnswer takes requests and forgets that, as a process does whose connection was
// cut off before the answer of the server came. It is handled all the same, as one that may have
// been handled before.
func TestTakenWithoutAnAnswer(t *testing.T) {
	d := newDouble(t, 1)
	p := d.current["a"]
	d.claim(p, d.roots[0])
	r := session.Request{ID: "1", Root: d.roots[0]}
	d.ask(r)
	for attempt := range 2 {
		got, err := d.ledger.Take(t.Context(), p, nil)
		require.NoError(t, err)
		require.Len(t, got, 1)
		assert.Equal(t, attempt+1, got[0].Attempt)
	}
	got, err := d.ledger.Take(t.Context(), p, []string{"1"})
	require.NoError(t, err)
	assert.Empty(t, got)
}

// TestProcessThatIsGoneForLong is forgotten, with its claims. It begins anew when it comes back.
func TestProcessThatIsGoneForLong(t *testing.T) {
	d := newDouble(t, 1)
	ctx, p, other := t.Context(), d.current["a"], d.current["b"]
	_, begun, err := d.ledger.Beat(ctx, p, ledgerLease, nil)
	require.NoError(t, err)
	assert.True(t, begun)
	first, err := d.ledger.Claim(ctx, p, ledgerLease, d.roots[0])
	require.NoError(t, err)
	count := func(what string) any {
		return d.s.query(t, `select count(*) from `+d.schema+`.`+what)
	}
	d.pass(23 * time.Hour)
	_, err = d.ledger.Claim(ctx, p, ledgerLease, d.roots[1])
	require.NoError(t, err)
	d.pass(time.Hour)
	_, err = d.ledger.Claim(ctx, other, ledgerLease, d.roots[1])
	require.NoError(t, err)
	require.NoError(t, d.ledger.Sweep(ctx))
	assert.EqualValues(t, 2, count(`logs where owner is not null`))
	assert.EqualValues(t, 1, count(`taken`))
	d.pass(24 * time.Hour)
	_, _, err = d.ledger.Beat(ctx, other, ledgerLease, nil)
	require.NoError(t, err)
	require.NoError(t, d.ledger.Sweep(ctx))
	assert.EqualValues(t, 1, count(`processes`))
	assert.EqualValues(t, 1, count(`logs where owner is not null`), "that of the other")
	assert.EqualValues(t, 0, count(`taken`))
	_, begun, err = d.ledger.Beat(ctx, p, ledgerLease, nil)
	require.NoError(t, err)
	assert.True(t, begun, "so that the process knows that its claims are lost")
	again, err := d.ledger.Claim(ctx, p, ledgerLease, d.roots[0])
	require.NoError(t, err)
	assert.Greater(t, again.Epoch, first.Epoch)
}
