package tree

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A run that reports another model for each call does not make a ledger grow without end, and
// nothing of what it used is lost.
func TestLedgerHasABoundForModels(t *testing.T) {
	r := NewRun(RunState{Spec: &Spec{Grant: &Grant{Agent: "main"}}})
	parent := NewRun(RunState{Spec: &Spec{Grant: &Grant{Agent: "main"}}})
	const calls = 3 * maxSeries
	for i := range calls {
		r.recordUsage(&Result{Model: Text(fmt.Sprint("p/", i)), Usage: Usage{Input: 1}}, int64(i))
	}
	parent.inheritUsage(r)
	for _, list := range [][]UsageSeries{r.Ledger.Own, parent.Ledger.Below} {
		require.LessOrEqual(t, len(list), maxSeries+1)
		var sum Usage
		others := false
		for _, s := range list {
			others = others || s.Model == OtherModels
			for _, row := range s.Quarters {
				sum = sum.add(row.Usage)
			}
		}
		require.True(t, others)
		require.EqualValues(t, calls, sum.Input)
	}
}

// The rows of years are days, and quarters of an hour for two months, however often what is old is
// made days, and whatever times the facts have.
func TestLedgerIsBoundedByTime(t *testing.T) {
	skipUnderRace(t)
	tr := New(top, &Options{})
	const years, perDay = 2, 100
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var used int64
	for n := range years * 365 * perDay {
		at := start.Add(time.Duration(n) * day / perDay).UnixNano()
		tr.root.recordUsage(&Result{Usage: Usage{Input: 1}}, at)
		used++
		if n%1000 == 999 {
			tr.coarsen(at)
		}
	}
	for _, at := range []int64{0, -1, math.MinInt64, math.MaxInt64, start.UnixNano()} {
		tr.root.recordUsage(&Result{Usage: Usage{Input: 1}}, at)
		used++
	}
	tr.coarsen(start.AddDate(years, 0, 0).UnixNano())
	require.Len(t, tr.root.Ledger.Own, 1)
	s := tr.root.Ledger.Own[0]
	require.LessOrEqual(t, len(s.Quarters), 63*int(quartersPerDay)+1)
	require.LessOrEqual(t, len(s.Days), years*365+3)
	var sum int64
	tr.root.Expenses(func(x Expense, _ bool) { sum += x.Usage.Input })
	require.Equal(t, used, sum)
	for _, rows := range [][]UsageRow{s.Days, s.Quarters} {
		for i := range rows[1:] {
			require.Less(t, rows[i].N, rows[i+1].N)
		}
	}
}

// Sums that are out of range stop at the largest number.
func TestLedgerSaturates(t *testing.T) {
	r := NewRun(RunState{Spec: &Spec{Grant: &Grant{}}})
	huge := Usage{
		math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxFloat64,
	}
	for range 3 {
		r.recordUsage(&Result{Usage: huge}, 1)
	}
	require.Equal(t, huge, r.Ledger.Own[0].Quarters[0].Usage)
	require.Equal(t, huge, r.Usage)
}

// A snapshot of an earlier library has the sum of each run alone. It counts when the run ended, and
// for the model that is on record.
func TestLedgerOfAnEarlierSnapshot(t *testing.T) {
	grant := &Grant{Agent: "main", Model: "p/resolved"}
	used := Usage{Input: 7, Cost: 0.5}
	image := &Image{Epoch: 1, Runs: []RunState{
		{Spec: &Spec{Key: top, Grant: &Grant{Agent: "main"}}, State: Waiting},
	}}
	hour := int64(time.Hour)
	for i, s := range []RunState{
		{Ended: 3 * hour, Answer: &Result{Model: "p/actual"}},
		{Started: 2 * hour},
		{},
	} {
		key, err := top.Child("main", fmt.Sprint("r", i))
		require.NoError(t, err)
		s.Spec = &Spec{Key: key, Parent: top, Created: hour, Grant: grant}
		s.State, s.Usage = OK, used
		image.Runs = append(image.Runs, s)
	}
	tr := New(top, &Options{})
	require.NoError(t, tr.Replay(snapshotOf(image)))
	var got []string
	tr.Walk(func(r *Run) {
		r.Expenses(func(x Expense, _ bool) {
			require.Equal(t, used, x.Usage)
			start := x.Middle.Add(-x.Length / 2)
			got = append(got, fmt.Sprint(x.Agent, " ", x.Model, " ", start.Hour()))
		})
		if !r.IsRoot() {
			require.Positive(t, r.LastActive())
		}
	})
	require.Equal(t, []string{"main p/actual 3", "main p/resolved 2", "main p/resolved 1"}, got)
	require.Nil(t, image.Runs[1].Ledger, "the image is not changed")
}

// An image shares no row with the tree, which changes its own in place.
func TestFoldOfLedgerKeepsImages(t *testing.T) {
	tr := New(top, &Options{})
	r := rand.New(rand.NewPCG(1, 2))
	step := func() {
		at := int64(r.IntN(5)) * int64(quarter)
		tr.root.recordUsage(&Result{Usage: Usage{Input: 1}}, at)
	}
	step()
	image := tr.Image()
	before := *image.Runs[0].Ledger.clone()
	for range 20 {
		step()
	}
	tr.coarsen(int64(100 * day))
	require.Equal(t, before, *image.Runs[0].Ledger)
}
